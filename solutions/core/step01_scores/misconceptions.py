"""What learners get wrong in step 1, each with the check that catches it."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step01_scores.reference import dot_product_scores


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def keys_against_queries(query: Tensor, key: Tensor) -> Tensor:
    """The keys were dotted with the queries, so the result came out transposed.

    Row i has to belong to query i and column j to key j. Here the rows belong to the keys.

    Which of the two tensors has to stand on the left of the product so that its tokens become the rows?
    """
    return key @ query.transpose(-2, -1)


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def only_its_own_key(query: Tensor, key: Tensor) -> Tensor:
    """Each query was multiplied with the key of the same position only.

    That gives one number for each token. Attention needs one number for every pair of a query and a key.

    Which operation combines all rows of one matrix with all rows of another?
    """
    own = (query * key).sum(dim=-1, keepdim=True)
    return own.expand(*own.shape[:-1], key.shape[-2])


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def features_against_features(query: Tensor, key: Tensor) -> Tensor:
    """The query was transposed instead of the key, so columns were dotted with columns.

    The sum then runs over the tokens and the result is (d, d). It has to run over the width d.

    Which dimension has to disappear in the product, and on which side of it does each tensor carry it?
    """
    return query.transpose(-2, -1) @ key


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def key_not_transposed(query: Tensor, key: Tensor) -> Tensor:
    """The query was multiplied with the key as it is, without a transpose.

    A matrix product adds over the last dimension of the left tensor and the one before the last of the right. In the
    key the tokens stand there, and not the width.

    In which shape does the key have to come, so that its width meets the width of the query?
    """
    return query @ key


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def key_reshaped(query: Tensor, key: Tensor) -> Tensor:
    """The key was given its new shape by `view` or `reshape`, and not by a transpose.

    The shape fits then, but the numbers stay in their order in memory: a column holds pieces of several keys.

    Take a key matrix of two rows and write down what `reshape` makes of it, and what a transpose does.
    """
    return query @ key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2])


@misconception(replaces="dot_product_scores", caught_by="test_batches")
def up_to_four_dimensions(query: Tensor, key: Tensor) -> Tensor:
    """Each number of dimensions had a line of its own, and five had none.

    Any number of batch dimensions may come. What is said once about the last two dimensions holds for all of them.

    What stands in an einsum for any number of dimensions, and what does `@` do with them?
    """
    batch = {2: "", 3: "b"}.get(query.dim(), "bh")
    return torch.einsum(f"{batch}qd,{batch}kd->{batch}qk", query, key)


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def cosine_similarity(query: Tensor, key: Tensor) -> Tensor:
    """The query and the key were divided by their lengths before the product.

    That is the cosine of the angle between them. The score keeps the lengths: a longer key may score higher.

    What is left of the dot product when nothing is normalised?
    """
    unit_query = query / query.norm(dim=-1, keepdim=True)
    unit_key = key / key.norm(dim=-1, keepdim=True)
    return unit_query @ unit_key.transpose(-2, -1)


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def negative_distance(query: Tensor, key: Tensor) -> Tensor:
    """The score was made from the distance between the query and the key.

    A small distance is a match too, but it is another measure: this step asks for the dot product.

    What do you get when you multiply a query and a key number by number and add the products?
    """
    return -(query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(dim=-1)


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def root_in_the_plain_scores(query: Tensor, key: Tensor) -> Tensor:
    """The plain scores were divided by the root of the width already.

    `dot_product_scores` is the dot product alone. The division belongs to `scaled_scores`.

    Which of the two functions has "scaled" in its name?
    """
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


@misconception(replaces="dot_product_scores", caught_by="test_batches")
def two_dimensions_only(query: Tensor, key: Tensor) -> Tensor:
    """The first two dimensions of the key were exchanged.

    Without a batch these are the tokens and the width. With a batch the first dimension is the batch, and it must stay.

    Which dimensions are the tokens and the width when you count from the end?
    """
    return query @ key.transpose(0, 1)


@misconception(replaces="dot_product_scores", caught_by="test_batches")
def three_dimensions_only(query: Tensor, key: Tensor) -> Tensor:
    """Dimensions 1 and 2 of the key were exchanged.

    This fits exactly one batch dimension. With none, or with two, these are other dimensions.

    How can you name the last two dimensions so that it does not matter how many stand before them?
    """
    return query @ key.transpose(1, 2)


@misconception(replaces="dot_product_scores", caught_by="test_batches")
def all_dimensions_reversed(query: Tensor, key: Tensor) -> Tensor:
    """All dimensions of the key were put in reverse order, as `key.T` does.

    For a matrix that is the transpose. With batch dimensions the batch moves too, and stands where the width should.

    Which attribute or method of a tensor exchanges only its last two dimensions?
    """
    return query @ key.permute(*reversed(range(key.dim())))


@misconception(replaces="dot_product_scores", caught_by="test_batches")
def keys_of_the_first_entry(query: Tensor, key: Tensor) -> Tensor:
    """The keys of the first batch entry were used for the whole batch.

    Every batch entry is a text of its own, so its queries have to meet its own keys.

    What happens to the leading dimensions when you multiply two stacks of matrices with `@`?
    """
    first = key.reshape(-1, *key.shape[-2:])[0]
    return query @ first.transpose(-2, -1)


@misconception(replaces="dot_product_scores", caught_by="test_batches")
def scores_across_the_batch(query: Tensor, key: Tensor) -> Tensor:
    """The batch was flattened into one long row of tokens before the product.

    Queries then meet the keys of other batch entries, and the result has lost its batch dimension.

    What does `@` do with the leading dimensions when you leave them as they are?
    """
    return query.reshape(-1, query.shape[-1]) @ key.reshape(-1, key.shape[-1]).transpose(0, 1)


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand", misses_the_point=True)
def not_scaled(query: Tensor, key: Tensor) -> Tensor:
    """The scores were not divided by anything.

    A dot product adds d products, so it grows with the width d. The softmax after it would then pick one key only.

    By what does the paper divide the scores?
    """
    return dot_product_scores(query, key)


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand", misses_the_point=True)
def divided_by_width(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by d and not by the square root of d.

    The spread of a sum of d products grows like the root of d. Dividing by d makes the scores too small.

    Did you scale the query and the key both, or forget a root?
    """
    return dot_product_scores(query, key) / query.shape[-1]


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def divided_by_width_and_by_two(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by d and then by 2.

    `scores / d ** 1/2` does that: Python takes the power first, and then divides twice.

    How do you write the exponent one half so that nothing in it is left for Python to divide?
    """
    return dot_product_scores(query, key) / query.shape[-1] / 2


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand", misses_the_point=True)
def multiplied_by_root(query: Tensor, key: Tensor) -> Tensor:
    """The scores were multiplied by the root of the width.

    They grow with the width already. Multiplying makes them grow once more.

    Should wide keys give larger scores than narrow ones, or scores of the same size?
    """
    return dot_product_scores(query, key) * math.sqrt(query.shape[-1])


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def scaled_by_fourth_root(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the fourth root of the width.

    The fourth root is right when the query and the key are both divided by it. Here only one division took place.

    How often does the scale enter the product, and what do these factors give when they are multiplied?
    """
    return dot_product_scores(query / query.shape[-1] ** 0.25, key)


@misconception(replaces="scaled_scores", caught_by="test_widths")
def scaled_by_first_dimension(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the root of the first dimension.

    The first dimension is the batch, or the number of queries when there is no batch. The width is another one.

    Over which dimension does the dot product add, and where does it stand in the shape?
    """
    return dot_product_scores(query, key) / math.sqrt(query.shape[0])


@misconception(replaces="scaled_scores", caught_by="test_widths")
def scaled_by_second_dimension(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the root of dimension 1.

    Without a batch dimension 1 is the width. With a batch it is the number of tokens or the next batch dimension.

    Which index names the width in a shape of any length?
    """
    return dot_product_scores(query, key) / math.sqrt(query.shape[1])


@another_form(scaled_by_second_dimension)
def scaled_by_second_dimension_of_keys(query: Tensor, key: Tensor) -> Tensor:
    return dot_product_scores(query, key) / math.sqrt(key.shape[1])


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def divided_by_tokens(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the number of keys.

    A longer text does not make one dot product larger, since each score comes from a single query and a single key.

    How many products does one score add up?
    """
    return dot_product_scores(query, key) / key.shape[-2]


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def divided_by_root_of_tokens(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the root of the number of keys.

    The root is right, but the number under it is not: the size of a score depends on the width, not on the length.

    Which number in the shape says how many products one score adds up?
    """
    return dot_product_scores(query, key) / math.sqrt(key.shape[-2])


@misconception(replaces="scaled_scores", caught_by="test_widths")
def root_rounded_down(query: Tensor, key: Tensor) -> Tensor:
    """The root of the width was rounded down to a whole number.

    It looks right for the widths 4, 9 and 64, and it is wrong for every width between the squares.

    What kind of number is the root of 3?
    """
    return dot_product_scores(query, key) / math.isqrt(query.shape[-1])


@misconception(replaces="dot_product_scores", caught_by="test_gradients")
def keys_detached(query: Tensor, key: Tensor) -> Tensor:
    """The keys were cut off from the gradient.

    The numbers are right, but training can no longer change what a key offers.

    Which call on the key keeps its numbers and forgets where they came from?
    """
    return query @ key.detach().transpose(-2, -1)


@misconception(replaces="dot_product_scores", caught_by="test_gradients")
def made_anew_from_numbers(query: Tensor, key: Tensor) -> Tensor:
    """The result was put into a new tensor from bare numbers.

    A new tensor does not know how it was computed, so no gradient flows back to the query or to the key.

    Can you return what the product gives, without copying its numbers?
    """
    scores = query @ key.transpose(-2, -1)
    return scores.detach().clone()


@misconception(replaces="scaled_scores", caught_by="test_gradients")
def scale_without_gradient(query: Tensor, key: Tensor) -> Tensor:
    """The scores were scaled outside the gradient's sight.

    The values are right, but the gradient is that of the scores before the division.

    Which line changes the numbers while autograd does not look?
    """
    scores = dot_product_scores(query, key)
    return scores + (scores / math.sqrt(query.shape[-1]) - scores).detach()


@misconception(replaces="dot_product_scores", caught_by="test_dtypes")
def answers_in_float32(query: Tensor, key: Tensor) -> Tensor:
    """The result came back in float32, whatever was given.

    The next operation then meets two dtypes and stops, or the whole model quietly leaves the dtype it was built for.

    Which dtype does the product have when you do not convert anything?
    """
    return query.float() @ key.float().transpose(-2, -1)


@misconception(replaces="dot_product_scores", caught_by="test_dtypes")
def passes_through_float32(query: Tensor, key: Tensor) -> Tensor:
    """The scores were computed in float32 and converted back afterwards.

    For float64 this throws half of the digits away: the dtype is right, the accuracy is that of float32.

    What would you leave out so that float64 stays float64 all the way?
    """
    return (query.float() @ key.float().transpose(-2, -1)).to(query.dtype)


@misconception(replaces="dot_product_scores", caught_by="test_device")
def filled_in_on_the_cpu(query: Tensor, key: Tensor) -> Tensor:
    """The result was made as a new tensor on the CPU.

    Inputs on another device then give a result on the wrong one, or the copy between the two stops the program.

    How does a new tensor learn on which device it has to be?
    """
    scores = torch.zeros(*query.shape[:-1], key.shape[-2], dtype=query.dtype)
    for j in range(key.shape[-2]):
        scores[..., j] = (query * key[..., j : j + 1, :]).sum(dim=-1)
    return scores


@misconception(replaces="scaled_scores", caught_by="test_inputs_unmodified")
def query_scaled_in_place(query: Tensor, key: Tensor) -> Tensor:
    """The query was divided in place, so the tensor of the caller changed.

    Whoever uses the same query afterwards, or calls twice, gets other numbers.

    Which operator makes a new tensor where `/=` and `div_` change the old one?
    """
    query /= math.sqrt(query.shape[-1])
    return dot_product_scores(query, key)


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def dot_of_whole_tensors(query: Tensor, key: Tensor) -> Tensor:
    """`torch.dot` was given whole tensors.

    It takes two vectors and gives one number. Attention needs one number for every pair of a query and a key.

    Which operation combines all rows of one matrix with all rows of another?
    """
    return torch.dot(query, key)


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def batch_dimension_unpacked(query: Tensor, key: Tensor) -> Tensor:
    """The shape was taken apart as if there were exactly one batch dimension.

    Any number of batch dimensions may come, none included. Then there are more numbers to take apart, or fewer.

    Which numbers do you need, and how do you ask for one of them, counted from the end of the shape?
    """
    _batch, _num_tokens, _width = query.shape
    return query @ key.transpose(-2, -1)


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def scaled_keys_against_queries(query: Tensor, key: Tensor) -> Tensor:
    """The keys were dotted with the queries, so the scaled scores came out transposed.

    Row i has to belong to query i and column j to key j. Here the rows belong to the keys.

    Which of the two tensors has to stand on the left of the product so that its tokens become the rows?
    """
    return dot_product_scores(key, query) / math.sqrt(query.shape[-1])


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def divided_by_root_of_queries(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the root of the number of queries.

    The root is right, but the number under it is not: the size of a score depends on the width, not on the length.

    Which number in the shape says how many products one score adds up?
    """
    return dot_product_scores(query, key) / math.sqrt(query.shape[-2])


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def softmax_taken_already(query: Tensor, key: Tensor) -> Tensor:
    """The scaled scores went through a softmax.

    Scores are what stands before the softmax: they have any size and either sign. Weights are made of them later.

    What does your function do after the division?
    """
    return (dot_product_scores(query, key) / math.sqrt(query.shape[-1])).softmax(dim=-1)


@misconception(replaces="scaled_scores", caught_by="test_dtypes")
def root_in_a_float32_tensor(query: Tensor, key: Tensor) -> Tensor:
    """The root of the width was put into a float32 tensor, and the result came out in float32.

    When two tensors with dimensions meet, torch takes the wider dtype, so a bfloat16 becomes float32. A tensor made
    like this is also on the CPU, wherever the scores are.

    Can a plain Python number do the work, which takes the dtype of what it divides?
    """
    return dot_product_scores(query, key) / torch.sqrt(torch.tensor([float(query.shape[-1])]))


@misconception(replaces="scaled_scores", caught_by="test_dtypes")
def scaled_in_float32(query: Tensor, key: Tensor) -> Tensor:
    """The scores were converted to float32 before they were scaled, and came back so.

    The next operation then meets two dtypes and stops, or the whole model quietly leaves the dtype it was built for.

    Does a division by a Python number need a conversion?
    """
    return dot_product_scores(query, key).float() / math.sqrt(query.shape[-1])


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(two_dimensions_only)
def transposed_by_t(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.t()


@misconception(replaces="dot_product_scores", caught_by="test_scores_by_hand")
def products_not_summed(query: Tensor, key: Tensor) -> Tensor:
    """Every query was multiplied with every key, number by number, and the products were not added up.

    A dot product is one number for each pair: the sum of the d products.

    Which dimension of your result should be gone, and what makes it go?
    """
    return query.unsqueeze(-2) * key.unsqueeze(-3)


@another_form(cosine_similarity, replaces="scaled_scores", caught_by="test_scaled_by_hand")
def cosine_similarity_as_the_scale(query: Tensor, key: Tensor) -> Tensor:
    return cosine_similarity(query, key)


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def divided_by_own_spread(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by their own standard deviation.

    The scale of one score then depends on all the others. The root of the width is the same number for every input.

    Which number in the shape tells, before any score is known, how far they will spread?
    """
    scores = dot_product_scores(query, key)
    return scores / scores.std()


@another_form(divided_by_own_spread)
def rows_divided_by_own_spread(query: Tensor, key: Tensor) -> Tensor:
    scores = dot_product_scores(query, key)
    return scores / scores.std(dim=-1, keepdim=True)


@another_form(scaled_by_first_dimension)
def scaled_by_first_dimension_of_keys(query: Tensor, key: Tensor) -> Tensor:
    return dot_product_scores(query, key) / math.sqrt(key.shape[0])


@misconception(replaces="scaled_scores", caught_by="test_scaled_by_hand")
def divided_by_width_squared(query: Tensor, key: Tensor) -> Tensor:
    """The scores were divided by the square of the width.

    The spread of a sum of d products grows like the root of d. Dividing by its square leaves almost nothing of a score.

    What is the square root of 4, and what did your code divide by when the width was 4?
    """
    return dot_product_scores(query, key) / query.shape[-1] ** 2
