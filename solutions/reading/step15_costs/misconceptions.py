"""What learners get wrong in step 15, each with the check that catches it."""

import math

from grader.checks.catalogue import misconception
from solutions.reading.step15_costs import reference
from solutions.reading.step15_costs.reference import linear, width_of_heads

# --- bytes of the scores ----------------------------------------------------------------------------------------------


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_as_a_float(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> float:
    """The number of bytes was returned as a float.

    A division, `math.pow` or a factor such as `1e0` makes a float, and beyond 2**53 floats skip whole numbers.

    Which of your operations gives a float?
    """
    return float(reference.attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element, num_layers))


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_of_one_head(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only one head's matrix was counted.

    Every head has scores of its own for every pair of tokens.

    What happens to your result when num_heads doubles?
    """
    return reference.attention_matrix_bytes(batch, 1, num_tokens, bytes_per_element, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_of_one_layer(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only one layer's scores were counted.

    A backward pass needs the scores of every layer, and they are kept until then.

    Where does your formula use num_layers?
    """
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_of_one_sequence(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only one sequence of the batch was counted.

    Every sequence has scores of its own.

    What happens to your result when batch doubles?
    """
    return reference.attention_matrix_bytes(1, num_heads, num_tokens, bytes_per_element, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def elements_counted(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """The numbers were counted, not their bytes.

    A number in float32 takes 4 bytes, in half precision 2.

    Where does your formula use bytes_per_element?
    """
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, 1, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def always_four_bytes(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Four bytes were counted for every number, whatever bytes_per_element says.

    A number in float32 takes 4 bytes, in half precision 2.

    Where does your formula use bytes_per_element?
    """
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, 4, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def one_number_per_token(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """One number per token was counted.

    There is one score for every pair of a query and a key.

    How many entries has the matrix for 3 tokens?
    """
    return num_layers * batch * num_heads * num_tokens * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_halved_for_a_causal_mask(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only the scores on and below the diagonal were counted.

    Naive attention makes the whole matrix and hides half of it afterwards: a causal mask saves nothing.

    How large is the tensor that the mask is applied to?
    """
    pairs = num_tokens * (num_tokens + 1) // 2
    return num_layers * batch * num_heads * pairs * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_exact_integers")
def bytes_through_a_float(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """The number was computed in floats and turned into an integer at the end.

    Beyond 2**53 a float has no room for the last digits, and `int` cannot bring them back.

    Can every step of the sum stay an integer: `*`, `**` and `//`?
    """
    return int(float(num_tokens) ** 2 * batch * num_heads * bytes_per_element * num_layers)


# --- operations -------------------------------------------------------------------------------------------------------


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


# --- parameters of attention ------------------------------------------------------------------------------------------


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def parameters_times_heads(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The matrices were counted once for each head.

    d_out is the width of all heads together: the heads are slices of one matrix.

    Does your number change when the same width is cut into more heads?
    """
    width_of_heads(d_out, num_heads)
    return 3 * num_heads * linear(d_in, d_out, qkv_bias) + linear(d_out, d_out)


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def output_bias_forgotten(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The bias of the output projection was left out.

    `qkv_bias` is about query, key and value; out_proj always has its bias.

    How many parameters has `nn.Linear(2, 2)`?
    """
    return reference.multi_head_attention_parameters(d_in, d_out, num_heads, qkv_bias) - d_out


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def output_bias_follows_qkv_bias(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The bias of the output projection was counted only with `qkv_bias`.

    out_proj always has its bias.

    About which three layers is `qkv_bias`?
    """
    width_of_heads(d_out, num_heads)
    return 3 * linear(d_in, d_out, qkv_bias) + linear(d_out, d_out, qkv_bias)


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def biases_always_counted(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The biases of query, key and value were counted always.

    They are there only with `qkv_bias=True`, and the default is False.

    What does your formula do with `qkv_bias`?
    """
    return reference.multi_head_attention_parameters(d_in, d_out, num_heads, True)


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def biases_never_counted(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The biases of query, key and value were never counted.

    With `qkv_bias=True` each of the three has d_out of them.

    What does your formula do with `qkv_bias`?
    """
    return reference.multi_head_attention_parameters(d_in, d_out, num_heads)


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def one_bias_for_three(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """One bias was counted for query, key and value together.

    Each of the three layers has its own, d_out numbers long.

    How many linear layers have a bias when qkv_bias is True?
    """
    extra = d_out if qkv_bias else 0
    return reference.multi_head_attention_parameters(d_in, d_out, num_heads) + extra


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def bias_as_long_as_the_input(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The biases were counted with the width of the input.

    A bias is added to what comes out of a layer.

    What is the shape of `nn.Linear(3, 2).bias`?
    """
    extra = 3 * d_in if qkv_bias else 0
    return reference.multi_head_attention_parameters(d_in, d_out, num_heads) + extra


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def no_output_projection(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The output projection was left out.

    After the heads are merged, out_proj mixes them: d_out × d_out weights and a bias.

    Which four linear layers does step 8's module have?
    """
    width_of_heads(d_out, num_heads)
    return 3 * linear(d_in, d_out, qkv_bias)


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def matrices_of_one_head(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """Query, key and value were counted for one head.

    d_out is the width of all heads together, and the three matrices make all of it.

    How wide is what `W_query` gives?
    """
    width = width_of_heads(d_out, num_heads)
    return 3 * (d_in + qkv_bias) * width + (d_out + 1) * d_out


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def output_from_the_input_width(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The output projection was counted as leading from d_in to d_out, like the other three.

    It gets what the heads put out, which is d_out wide already.

    How wide is what out_proj is given?
    """
    width_of_heads(d_out, num_heads)
    return 3 * linear(d_in, d_out, qkv_bias) + linear(d_in, d_out)


@misconception(replaces="attention_flops", caught_by="test_heads_divide_the_width")
def uneven_heads_in_flops(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """The operations of heads that do not divide the width were counted without an error.

    `//` rounds the width of a head down, and `/` gives heads of a broken width: no such model exists.

    Where does your function ask whether the division comes out even?
    """
    projections, scores, weighted = reference.attention_flops(batch, 1, num_tokens, d_model)
    return projections, scores, weighted


@misconception(replaces="multi_head_attention_parameters", caught_by="test_heads_divide_the_width")
def uneven_heads_in_attention(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """The parameters of an attention whose heads do not divide its width were counted without an error.

    The number of heads is not needed for the sum, but step 8's module cannot be made with such heads.

    What does your function do with num_heads?
    """
    return reference.multi_head_attention_parameters(d_in, d_out, 1, qkv_bias)


@misconception(replaces="multi_head_attention_parameters", caught_by="test_attention_parameters")
def input_shared_out_among_heads(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """d_in was required to be divisible by the number of heads.

    Only d_out, what query, key and value are wide, is cut into heads.

    Which of the two widths does step 8 split?
    """
    width_of_heads(d_in, num_heads)
    return reference.multi_head_attention_parameters(d_in, d_out, num_heads, qkv_bias)


# --- parameters of GPT ------------------------------------------------------------------------------------------------


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def head_counted_twice(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The head was counted in addition to the token embedding.

    They are tied: lm_head.weight is wte.weight, one parameter with two names.

    How many tensors of shape (vocab_size, n_embd) does the model hold?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) + vocab_size * n_embd


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def head_with_a_bias(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The head was given a bias, one number for each token of the vocabulary.

    GPT-2's head has none: it is the token embedding, used a second time.

    What does step 12's head consist of?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) + bias * vocab_size


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def masks_counted(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True) -> int:
    """The causal masks were counted, block_size squared in each layer.

    They are buffers: nothing of them is learned.

    Which tensors of a module does `parameters()` give?
    """
    own = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return own + n_layer * block_size**2


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def positions_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The position embeddings were left out.

    GPT learns its positions: wpe has block_size rows.

    Where does your formula use block_size?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) - block_size * n_embd


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def final_norm_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The final norm was left out.

    ln_f stands between the last block and the head.

    How many norms are there: two in each block, and ...?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every - n_embd - bias * n_embd


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def norms_keep_their_bias(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """With `bias=False` the norms kept their biases.

    Step 11's LayerNorm takes `bias` as well: False leaves it a weight alone.

    How many parameters has a norm with bias=False?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every + (0 if bias else (2 * n_layer + 1) * n_embd)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def final_norm_keeps_its_bias(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """With `bias=False` the final norm kept its bias.

    bias=False leaves out every bias, that of ln_f too.

    Which biases does your formula still count when bias is False?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every + (0 if bias else n_embd)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def projections_keep_their_bias(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """With `bias=False` the two output projections of a block, c_proj, kept their biases.

    bias=False leaves out every bias of the model.

    Which biases does your formula still count when bias is False?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every + (0 if bias else 2 * n_layer * n_embd)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def bias_not_looked_at(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """All biases were counted, whatever `bias` says.

    bias=False leaves out every bias, those of the norms included.

    Where does your formula use `bias`?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def no_biases_at_all(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """Only the matrices and the norms' weights were counted, no bias.

    Each linear layer of GPT-2 and each norm has one, unless bias=False.

    How many parameters has `nn.Linear(2, 6)`?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, False)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def mlp_half_counted(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """Only one of the two matrices of the MLP was counted.

    c_fc leads to 4 · n_embd, and c_proj leads back.

    How many linear layers does a block have?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every - n_layer * linear(4 * n_embd, n_embd, bias)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def mlp_not_widened(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True) -> int:
    """The MLP was counted with n_embd hidden units.

    It widens to 4 · n_embd and comes back.

    What is the shape of c_fc's weight?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    wide = linear(n_embd, 4 * n_embd, bias) + linear(4 * n_embd, n_embd, bias)
    return every - n_layer * (wide - 2 * linear(n_embd, n_embd, bias))


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def attention_projection_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The output projection of attention, c_proj, was left out.

    c_attn makes query, key and value; c_proj mixes what the heads put out.

    Which two linear layers does step 9's attention have?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every - n_layer * linear(n_embd, n_embd, bias)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def one_norm_in_a_block(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """One norm was counted in each block.

    There are two: ln_1 before attention, and ln_2 before the MLP.

    What stands before each of the two halves of a block?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every - n_layer * (n_embd + bias * n_embd)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def norms_without_bias(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """Each norm was counted with n_embd parameters, though it has twice as many with a bias.

    A norm has a weight and a bias, n_embd numbers each; bias=False leaves the weight alone.

    Which parameters does step 11's LayerNorm have?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every - bias * (2 * n_layer + 1) * n_embd


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def one_block(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True) -> int:
    """One block was counted, however many layers there are.

    Each of the n_layer blocks has parameters of its own.

    Where does your formula use n_layer?
    """
    return reference.gpt_parameters(vocab_size, block_size, 1, n_head, n_embd, bias)


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def attention_times_heads(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The attention of a block was counted once for each head.

    n_embd is the width of all heads together; more heads are narrower ones.

    Does GPT-2's number change with n_head?
    """
    every = reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
    return every + n_layer * (n_head - 1) * linear(n_embd, 3 * n_embd, bias)


@misconception(replaces="gpt_parameters", caught_by="test_heads_divide_the_width")
def uneven_heads_in_gpt(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The parameters of a GPT whose heads do not divide its width were counted without an error.

    The number of heads is not needed for the sum, but step 12's GPT cannot be made with such heads.

    What does your function do with n_head?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, 1, n_embd, bias)


# --- the table --------------------------------------------------------------------------------------------------------


@misconception(replaces="layer_costs", caught_by="test_path_of_convolutions")
def floating_logarithm(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of the convolution was computed with a floating logarithm and rounded up.

    `math.log(125, 5)` is 3.0000000000000004, which rounds up to 4, and 5**3 is 125.

    Can you count the layers instead: multiply by k until n is reached?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(math.log(n, k))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def logarithm_rounded_down(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of the convolution was rounded down.

    With kernels of 3, two layers reach 9 tokens; for 10 a third one is needed.

    How many layers do 5 tokens need with kernels of 3?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    shorter = path - 1 if k**path > n and path > 1 else path
    return operations, sequential, shorter if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_path_of_convolutions")
def logarithm_rounded_to_the_nearest(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The logarithm was rounded to the nearest whole number.

    One token more than k**m needs a whole layer more, and its logarithm is only a little above m.

    How many layers do 10 tokens need with kernels of 3?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, round(math.log(n, k))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def logarithm_to_base_two(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The logarithm to base 2, or the natural one, was taken for the path.

    Each layer reaches k times as far as the one before it, so the base is k.

    How far do two layers with kernels of 3 reach?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(math.log2(n))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def natural_logarithm(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The natural logarithm was taken for the path.

    `math.log(n)` has base e. Each layer reaches k times as far as the one before it, so the base is k.

    How far do two layers with kernels of 3 reach?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(math.log(n))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def undilated_kernels(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of undilated kernels was given, n / k.

    The table's entry is for dilated convolutions, whose reach is multiplied by k in each layer.

    How many layers do 9 tokens need with dilated kernels of 3?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, -(-n // k) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def no_path_for_one_token(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of the convolution was 0 for a single token.

    A signal passes one layer at least: the smallest m of 1 or more is asked for.

    Where does your count begin?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, 0 if layer == "convolutional" and n == 1 else path


@misconception(replaces="layer_costs", caught_by="test_path_of_convolutions")
def one_layer_too_many(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Where k**m is exactly n, one layer too many was counted.

    k**m >= n is enough: 9 tokens are reached by two layers with kernels of 3.

    Does your loop go on while k**m is smaller than n, or while it is not larger?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, path + (k**path == n) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def kernel_forgotten(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The width of the kernel was left out of the convolution's operations.

    Each output sums over k neighbours: k · n · d².

    What does a kernel twice as wide cost?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations // k if layer == "convolutional" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def recurrent_in_one_step(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The recurrent layer was given one sequential operation.

    Each state needs the one before it, so the n steps wait for each other. That is what the Transformer did away with.

    Can the state of token 5 be computed before that of token 4?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, 1, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def recurrent_path_of_one(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The recurrent layer was given a path of 1.

    A signal from the first token to the last passes every state in between: n steps.

    Through how many states does the first token reach the last?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, 1 if layer == "recurrent" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def table_exchanged(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """n and d changed places in the operations.

    Attention compares each of n tokens with each of n, d numbers at a time: n² · d. Recurrence multiplies each of n
    tokens with a (d, d) matrix: n · d².

    Which of the two is cheaper for a short text?
    """
    operations = reference.layer_costs(layer, d, n, k, r)[0]
    return operations, *reference.layer_costs(layer, n, d, k, r)[1:]


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def restricted_path_rounded_down(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of restricted attention was rounded down.

    What is left over takes one step more, and a text shorter than r takes one step, not none.

    How many steps of 2 tokens does it take to get across 5?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, n // r if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def always_one_step_more(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """n // r + 1 was given for the path of restricted attention.

    Where r divides n, that is one too many.

    How can a whole number be rounded up only where something is left over?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, n // r + 1 if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_exact_integers")
def path_through_a_float(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of restricted attention was divided in floats before it was rounded up.

    `math.ceil(n / r)` loses the last digits of a large n before it rounds.

    Can `//` round up, with something added or with the sign turned twice?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, math.ceil(n / r) if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_exact_integers")
def logarithm_rounded_to_digits(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The floating logarithm was rounded to some digits before it was rounded up.

    That hides the error at powers of k, but just above a large power the logarithm is rounded down to it.

    Can you count the layers instead: multiply by k until n is reached?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(round(math.log(n, k), 9))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def restricted_counted_as_full(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Restricted attention was given the operations of full attention.

    Each query meets r keys, not n.

    How many scores are there per query?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return n * n * d if layer == "restricted" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def unknown_layer_accepted(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int] | None:
    """A name that is not in the table gave an answer, or None.

    A spelling mistake then passes for a result.

    What should the last line of the function do, when no name fits?
    """
    known = ("self-attention", "recurrent", "convolutional", "restricted")
    return reference.layer_costs(layer, n, d, k, r) if layer in known else None


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def multiply_adds_in_the_table(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The operations of the table were doubled, a multiply-add counted as two.

    The table is about growth: every constant is 1 there.

    What does the docstring say about constants?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return 2 * operations, sequential, path


# --- the cache --------------------------------------------------------------------------------------------------------


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def keys_alone(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only the keys were counted.

    A later token needs the values of the earlier ones as well.

    Which two tensors does each layer keep?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element) // 2


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def queries_kept_too(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Queries were counted as well.

    A query is used once, by its own token, and is not looked at again.

    Which of query, key and value does a later token read?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element) // 2 * 3


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_one_layer(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """One layer's cache was counted.

    Each layer has keys and values of its own.

    Where does your formula use n_layer?
    """
    return reference.kv_cache_bytes(batch, num_tokens, 1, num_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_one_sequence(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """One sequence's cache was counted.

    Each sequence of the batch has keys and values of its own.

    Where does your formula use batch?
    """
    return reference.kv_cache_bytes(1, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_one_head(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """One head's cache was counted.

    head_dim is the width of one head, and there are num_kv_heads of them.

    Where does your formula use num_kv_heads?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, 1, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_all_pairs(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """The cache grew with the square of the length.

    Keys and values are kept once for each token; it is the scores that come in pairs.

    How many keys does a text of 3 tokens have?
    """
    return num_tokens * reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_elements_counted(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """The numbers of the cache were counted, not their bytes.

    In half precision a number takes 2 bytes, in float32 4: that is what bytes_per_element says.

    Where does your formula use bytes_per_element?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, 1)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def always_two_bytes(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Two bytes were counted for every number, whatever bytes_per_element says.

    In half precision a number takes 2 bytes, in float32 4, and in int8 1.

    Where does your formula use bytes_per_element?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_as_a_float(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> float:
    """The bytes of the cache were returned as a float, perhaps in megabytes.

    Asked for is the exact number of bytes, an integer.

    Which of your operations gives a float?
    """
    return float(reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element))
