"""What learners get wrong in `attention_flops`, each with the check that catches it."""

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step15_costs import reference
from solutions.reading.step15_costs.reference import width_of_heads


@misconception(replaces="attention_flops", caught_by="test_flops")
def flops_as_floats(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[float, ...]:
    """The operations were returned as floats.

    `/` gives a float even where it comes out even; `//` gives an integer.

    How do you compute the width of a head?
    """
    projections = reference.attention_flops(batch, num_heads, num_tokens, d_model)[0]
    scores = 2 * batch * num_heads * num_tokens**2 * (d_model / num_heads)
    return projections, scores, scores


@misconception(replaces="attention_flops", caught_by="test_flops")
def multiply_add_as_one(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, ...]:
    """A multiply-add was counted as one operation.

    Multiplying and adding are two floating-point operations. Some papers count one and call it a MAC.

    What does a product of (m, k) and (k, n) take, as the docstring counts it?
    """
    return tuple(flops // 2 for flops in reference.attention_flops(batch, num_heads, num_tokens, d_model))


@misconception(replaces="attention_flops", caught_by="test_flops")
def flops_times_heads_again(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The scores and the weighted sum of the full width were multiplied by the number of heads once more.

    Heads share the width out: each is d_model / num_heads wide, so all of them together cost what one wide head costs.

    How wide is one head?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections, scores * num_heads, weighted * num_heads


@misconception(replaces="attention_flops", caught_by="test_flops")
def flops_of_one_head(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The scores and the weighted sum of one head alone were counted.

    Each head has scores of its own.

    How many heads of width d_model / num_heads are there?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections, scores // num_heads, weighted // num_heads


@misconception(replaces="attention_flops", caught_by="test_flops")
def output_projection_forgotten(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """Three projections were counted: the one of the output is missing.

    Query, key and value are three; what the heads put out passes a fourth matrix.

    What happens after the heads are merged?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections // 4 * 3, scores, weighted


@misconception(replaces="attention_flops", caught_by="test_flops")
def flops_of_one_sequence(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """Only one sequence of the batch was counted.

    Every sequence is projected and attends for itself.

    What happens to your three numbers when batch doubles?
    """
    return reference.attention_flops(1, num_heads, num_tokens, d_model)


@misconception(replaces="attention_flops", caught_by="test_flops")
def softmax_counted(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The softmax, or the scaling, was counted with the scores.

    Here only products count; the softmax takes a few operations per score, which is little beside them.

    What is counted, by the text at the top of the file?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections, scores + 3 * batch * num_heads * num_tokens**2, weighted


@misconception(replaces="attention_flops", caught_by="test_flops")
def flops_halved_for_a_causal_mask(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The scores and the weighted sum were counted at half: halved for a causal mask, or a multiply-add counted once.

    A plain product computes every score, also those that are hidden afterwards, and a multiply-add is two operations.

    Which pairs does `query @ key.transpose(-2, -1)` leave out, and what does each of them take?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections, scores // 2, weighted // 2


@misconception(replaces="attention_flops", caught_by="test_flops")
def visible_pairs_alone(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """Only the pairs that a causal mask leaves visible were counted: T (T + 1) / 2.

    A plain product computes every score, also those that are hidden afterwards.

    Which pairs does `query @ key.transpose(-2, -1)` leave out?
    """
    projections = reference.attention_flops(batch, num_heads, num_tokens, d_model)[0]
    pairs = num_tokens * (num_tokens + 1) // 2
    return projections, 2 * batch * pairs * d_model, 2 * batch * pairs * d_model


@misconception(replaces="attention_flops", caught_by="test_flops")
def one_addition_less(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """A sum of k products was counted as k multiplications and k - 1 additions.

    That is exact, but here, as in most papers, a multiply-add is 2 operations: 2 k.

    What does the docstring say that an (m, k) times (k, n) product takes?
    """
    width = width_of_heads(d_model, num_heads)
    projections = 4 * batch * num_tokens * d_model * (2 * d_model - 1)
    scores = batch * num_heads * num_tokens**2 * (2 * width - 1)
    return projections, scores, batch * num_heads * num_tokens * width * (2 * num_tokens - 1)


@misconception(replaces="attention_flops", caught_by="test_exact_integers")
def flops_through_a_float(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The operations were counted in floats, and made integers at the end.

    Beyond 2**53 a float skips whole numbers, and `int` does not bring them back.

    Which of your operations gives a float?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return int(float(projections)), int(float(scores)), int(float(weighted))


@misconception(replaces="attention_flops", caught_by="test_flops")
def projections_of_one_token(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The projections were counted for one token.

    Each token of each sequence passes the four matrices.

    How many rows has the matrix that is multiplied with the weights?
    """
    projections, scores, weighted = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections // num_tokens, scores, weighted


@misconception(replaces="attention_flops", caught_by="test_flops")
def flops_in_one_sum(batch: int, num_heads: int, num_tokens: int, d_model: int) -> int:
    """One number was returned, the sum of all operations.

    The three parts grow differently with the length, which is why they are asked for one by one.

    Which of them grow with the square of the number of tokens?
    """
    return sum(reference.attention_flops(batch, num_heads, num_tokens, d_model))


@misconception(replaces="attention_flops", caught_by="test_flops")
def length_and_width_exchanged(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """In the scores, T · d² was counted where T² · d belongs.

    Every query meets every key, T times T of them, and each meeting takes d multiplications.

    What are the shapes of the two matrices whose product is the scores?
    """
    projections, *_rest = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    scores = 2 * batch * num_tokens * d_model**2
    return projections, scores, scores


@misconception(replaces="attention_flops", caught_by="test_heads_divide_the_width")
def uneven_heads_in_flops(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The operations of heads that do not divide the width were counted without an error.

    `//` rounds the width of a head down, and `/` gives heads of a broken width: no such model exists.

    Where does your function ask whether the division comes out even?
    """
    projections, scores, weighted = reference.attention_flops(batch, 1, num_tokens, d_model)
    return projections, scores, weighted


@another_form(flops_times_heads_again)
def projections_times_heads_too(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    projections, scores, weighted_sum = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections * num_heads, scores, weighted_sum


@misconception(replaces="attention_flops", caught_by="test_flops")
def one_projection(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """One projection was counted, and there are four: query, key, value and output.

    Each of them leads from d_model to d_model, for every token.

    Which matrices does an attention with heads have?
    """
    projections, scores, weighted_sum = reference.attention_flops(batch, num_heads, num_tokens, d_model)
    return projections // 4, scores, weighted_sum
