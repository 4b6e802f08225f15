"""What learners get wrong in `gpt_parameters`, each with the check that catches it."""

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step15_costs import reference
from solutions.reading.step15_costs.reference import linear


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
def one_bias_of_a_block_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """In each block n_embd biases were forgotten: those of an output projection (c_proj) or of a norm.

    With bias=True every linear layer has as many biases as outputs, and every norm n_embd of them.

    Which linear layers and norms has a block, and how many biases has each?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) - bias * n_layer * n_embd


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


@another_form(mlp_half_counted)
def mlp_half_counted_with_both_biases(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) - 4 * n_layer * n_embd**2


@another_form(attention_projection_forgotten)
def attention_projections_matrix_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) - n_layer * n_embd**2


@another_form(attention_times_heads)
def attention_matrix_times_heads(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    return (
        reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
        + 3 * n_layer * (n_head - 1) * n_embd**2
    )


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def biases_of_three_widths_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """3 · n_embd biases of a block are missing: those of query, key and value, or all but n_embd of the hidden units'.

    With bias=True every linear layer has as many biases as outputs.

    How many numbers do c_attn and c_fc give for each token?
    """
    return reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias) - bias * n_layer * 3 * n_embd


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def norms_forgotten(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True) -> int:
    """No norm was counted, neither those of the blocks nor the final one.

    Each has a weight of n_embd numbers, and as many biases unless bias=False.

    What stands before attention, before the MLP, and before the head?
    """
    return (
        reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
        - (2 * n_layer + 1) * (1 + bias) * n_embd
    )


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def twelve_squares_a_block(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """A block was counted as 12 · n_embd², which is a rule of thumb: biases and norms of the blocks are missing.

    The rule is good for estimates. Here the number is exact.

    What else does a block have beside its matrices?
    """
    norm = (1 + bias) * n_embd
    return (vocab_size + block_size) * n_embd + 12 * n_layer * n_embd**2 + norm


@another_form(twelve_squares_a_block)
def twelve_squares_and_no_norm(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    return (vocab_size + block_size) * n_embd + 12 * n_layer * n_embd**2


@misconception(replaces="gpt_parameters", caught_by="test_gpt_parameters")
def embeddings_forgotten(
    vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True
) -> int:
    """The embeddings of tokens and positions were left out.

    Both tables are learned: wte has vocab_size rows, wpe block_size rows.

    Where does your formula use vocab_size?
    """
    return (
        reference.gpt_parameters(vocab_size, block_size, n_layer, n_head, n_embd, bias)
        - (vocab_size + block_size) * n_embd
    )
