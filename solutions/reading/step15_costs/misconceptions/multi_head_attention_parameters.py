"""What learners get wrong in `multi_head_attention_parameters`, each with the check that catches it."""

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step15_costs import reference
from solutions.reading.step15_costs.reference import linear, width_of_heads


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


@another_form(parameters_times_heads)
def matrices_times_heads(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    own = reference.multi_head_attention_parameters(d_in, d_out, num_heads, qkv_bias)
    return own + 3 * (num_heads - 1) * d_in * d_out


@another_form(matrices_of_one_head)
def matrices_of_one_head_biases_of_all(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    own = reference.multi_head_attention_parameters(d_in, d_out, num_heads, qkv_bias)
    return own - 3 * d_in * (d_out - width_of_heads(d_out, num_heads))
