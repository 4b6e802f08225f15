"""What learners get wrong in `Block`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step11_gpt_block import reference


class Pieces(reference.Block):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def add_attended(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def attended(self, x: Tensor) -> Tensor:
        return self.add_attended(x, self.attn(self.ln_1(x)))

    def add_fed(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def fed(self, x: Tensor) -> Tensor:
        return self.add_fed(x, self.mlp(self.ln_2(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.fed(self.attended(x))


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class post_norm(Pieces):
    """The norms were applied after the additions, as in the first Transformer.

    GPT-2 norms what a branch reads, and leaves the stream itself alone (pre-norm).

    What do attn and mlp read, and what is their output added to?
    """

    def attended(self, x: Tensor) -> Tensor:
        return self.ln_1(self.add_attended(x, self.attn(x)))

    def fed(self, x: Tensor) -> Tensor:
        return self.ln_2(self.add_fed(x, self.mlp(x)))


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class norm_after_the_branch(Pieces):
    """The norms were applied to what attn and mlp returned, before it was added.

    GPT-2 norms what a branch reads, so that it always sees numbers of ordinary size. Here both branches read the stream
    as it is, and all that they add has one and the same size.

    In `x + attn(ln_1(x))`, which is called first: the norm or the attention?
    """

    def attended(self, x: Tensor) -> Tensor:
        return self.add_attended(x, self.ln_1(self.attn(x)))

    def fed(self, x: Tensor) -> Tensor:
        return self.add_fed(x, self.ln_2(self.mlp(x)))


@misconception(replaces="Block", caught_by="test_block")
class norms_exchanged(reference.Block):
    """attn read through ln_2, and mlp through ln_1.

    As they are made the two norms are alike, and nothing shows. Learned or loaded weights then stand in the wrong
    place.

    Which norm does the docstring name beside attn?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_2(x))
        return x + self.mlp(self.ln_1(x))


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class attention_not_added(Pieces):
    """The output of attention took the place of the stream: it was not added to it.

    All that the earlier layers found is lost there, and so is the direct path of the gradient.

    What becomes of x when attention has nothing to add?
    """

    def add_attended(self, x: Tensor, branch: Tensor) -> Tensor:
        return branch


@misconception(replaces="Block", caught_by="test_block")
class stream_added_twice(Pieces):
    """The stream was added twice somewhere in the block.

    The residual is already in the stream: each branch is added to it once, and nothing else.

    How many sums does your forward make, and what are the two sides of each?
    """

    def fed(self, x: Tensor) -> Tensor:
        return super().fed(x) + x


@another_form(stream_added_twice)
class block_input_added_again(Pieces):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x


@another_form(stream_added_twice)
class stream_added_twice_after_attention(Pieces):
    def add_attended(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch + x


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class mlp_not_added(Pieces):
    """The output of the MLP took the place of the stream: it was not added to it.

    The stream ends there, and with it what attention has just gathered.

    How many additions does one block have?
    """

    def add_fed(self, x: Tensor, branch: Tensor) -> Tensor:
        return branch


@misconception(replaces="Block", caught_by="test_block")
class added_to_the_normed_input(Pieces):
    """The output of each branch was added to the normed stream, not to the stream itself.

    This happens when x is overwritten by its norm. The stream is then rescaled in every layer.

    Which x is still needed after ln_1 was applied?
    """

    def attended(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        return self.add_attended(x, self.attn(x))

    def fed(self, x: Tensor) -> Tensor:
        x = self.ln_2(x)
        return self.add_fed(x, self.mlp(x))


@misconception(replaces="Block", caught_by="test_block")
class one_norm_for_both(Pieces):
    """ln_1 was used before both branches, and ln_2 was never used.

    Each branch has learned a norm of its own, and the weights of ln_2 have no effect.

    Which norm does the MLP read through?
    """

    def fed(self, x: Tensor) -> Tensor:
        return self.add_fed(x, self.mlp(self.ln_1(x)))


@misconception(replaces="Block", caught_by="test_block")
class branches_side_by_side(reference.Block):
    """The MLP read the stream as it was before attention had added to it.

    Some models put their branches side by side like this. GPT-2's MLP comes after attention and reads what it found.

    What is x at the moment when ln_2 reads it?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.ln_1(x)) + self.mlp(self.ln_2(x))


@misconception(replaces="Block", caught_by="test_block")
class mlp_comes_first(Pieces):
    """The stream went through the MLP first, and through attention then.

    In GPT-2 the MLP works on what attention has gathered in the same block. Here it gets it only in the next one.

    Which of the two branches reads through ln_1?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.attended(self.fed(x))


@misconception(replaces="Block", caught_by="test_block")
class mlp_added_to_the_block_input(reference.Block):
    """The output of the MLP was added to what had come into the block, and not to the stream with attention's part.

    What attention had added is lost in that sum: only what the MLP made of it goes on.

    Which x does the second line of the formula begin with?
    """

    def forward(self, x: Tensor) -> Tensor:
        attended = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(attended))


@misconception(replaces="Block", caught_by="test_block")
class mlp_without_norm(Pieces):
    """The MLP read the stream itself, not the stream through ln_2.

    The stream grows from layer to layer, and what the MLP is given grows with it.

    Where does ln_2 stand?
    """

    def fed(self, x: Tensor) -> Tensor:
        return self.add_fed(x, self.mlp(x))


@misconception(replaces="Block", caught_by="test_block")
class one_norm_under_two_names(reference.Block):
    """ln_1 and ln_2 were one and the same module.

    Each branch has learned a norm of its own. Here both read through the weights that were loaded last.

    How many norms does your `__init__` make, and how many does a block have?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.ln_2 = self.ln_1


@misconception(replaces="Block", caught_by="test_block")
class attention_without_norm(Pieces):
    """Attention read the stream itself, not the stream through ln_1.

    The stream grows from layer to layer, and the scores of attention grow with it.

    Where does ln_1 stand?
    """

    def attended(self, x: Tensor) -> Tensor:
        return self.add_attended(x, self.attn(x))


@misconception(replaces="Block", caught_by="test_block")
class stream_without_gradient(Pieces):
    """The stream was detached before the branches were added to it.

    The output is right, but the gradient must now pass through every branch to reach the first layers.

    Which path should the gradient take when both branches add nothing?
    """

    def add_attended(self, x: Tensor, branch: Tensor) -> Tensor:
        return x.detach() + branch


@misconception(replaces="Block", caught_by="test_dropout")
class dropout_not_handed_on(reference.Block):
    """The block took the argument dropout, and did not hand it on to all of its parts.

    A part that is not told has its default of 0, and what it adds is never dropped.

    Which arguments do attn and mlp need to hear about?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, 0.0, bias)


@another_form(dropout_not_handed_on)
class dropout_not_handed_on_to_attention(reference.Block):
    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.attn = reference.CausalSelfAttention(n_embd, n_head, block_size, bias=bias)


@another_form(dropout_not_handed_on)
class dropout_not_handed_on_to_mlp(reference.Block):
    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.mlp = reference.MLP(n_embd, bias=bias)


@misconception(replaces="Block", caught_by="test_block")
class bias_not_handed_on(reference.Block):
    """The block took the argument bias, and did not hand it on to all of its parts.

    A part that is not told has biases all the same, also with bias=False.

    Which of the four parts know the argument bias?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, True)


class _SomeToldOfBias(reference.Block):
    """Made in the order of the reference, and each part once, so that the initial values are drawn alike."""

    norms_told = attention_told = mlp_told = True

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        nn.Module.__init__(self)
        self.ln_1 = reference.LayerNorm(n_embd, bias or not self.norms_told)
        attention_bias = bias or not self.attention_told
        self.attn = reference.CausalSelfAttention(n_embd, n_head, block_size, dropout, attention_bias)
        self.ln_2 = reference.LayerNorm(n_embd, bias or not self.norms_told)
        self.mlp = reference.MLP(n_embd, dropout, bias or not self.mlp_told)


@another_form(bias_not_handed_on)
class bias_not_handed_on_to_mlp(_SomeToldOfBias):
    mlp_told = False


@another_form(bias_not_handed_on)
class bias_not_handed_on_to_attention(_SomeToldOfBias):
    attention_told = False


@another_form(bias_not_handed_on)
class bias_not_handed_on_to_norms(_SomeToldOfBias):
    norms_told = False


@misconception(replaces="Block", caught_by="test_dtypes_meta_and_inputs")
class input_changed_in_place(reference.Block):
    """The branches were added to x in place, so the caller's tensor changed.

    Whoever needs the input of the block again finds its output there.

    What is the difference between x += y and x = x + y?
    """

    def forward(self, x: Tensor) -> Tensor:
        x += self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


@misconception(replaces="Block", caught_by="test_dropout")
class branches_dropped_again(Pieces):
    """The block dropped once more from what a branch gave, attention or the MLP, before it added that to the stream.

    Both drop from their output themselves. What two dropouts keep is less than what was asked for.

    Which of the parts of a block know the rate of dropout already?
    """

    def add_attended(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + F.dropout(branch, self.mlp.dropout, self.training)

    def add_fed(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + F.dropout(branch, self.mlp.dropout, self.training)


@misconception(replaces="Block", caught_by="test_dropout")
class norm_output_dropped(Pieces):
    """What the first norm gave was dropped on its way to the attention.

    The parts have their own dropout: attention drops weights and its output, the MLP its output. The block itself drops
    nothing.

    In the formula of the block, what stands between the first norm and the attention?
    """

    def attended(self, x: Tensor) -> Tensor:
        return self.add_attended(x, self.attn(F.dropout(self.ln_1(x), self.mlp.dropout, self.training)))


@another_form(added_to_the_normed_input)
class attention_added_to_the_normed_input(Pieces):
    def attended(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        return self.add_attended(x, self.attn(x))


@another_form(added_to_the_normed_input)
class mlp_added_to_the_normed_input(Pieces):
    def fed(self, x: Tensor) -> Tensor:
        x = self.ln_2(x)
        return self.add_fed(x, self.mlp(x))


@another_form(branches_dropped_again)
class attention_dropped_again(Pieces):
    def add_attended(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + F.dropout(branch, self.mlp.dropout, self.training)


@another_form(branches_dropped_again)
class mlp_dropped_again(Pieces):
    def add_fed(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + F.dropout(branch, self.mlp.dropout, self.training)


@misconception(replaces="Block", caught_by="test_block")
class normed_once_more_at_the_end(Pieces):
    """The stream went through a norm once more before the block gave it back.

    The stream passes from the first block to the last with nothing but sums. One norm after all the blocks is the
    model's own.

    How many times is a norm called in x + attn(ln_1(x)) and x + mlp(ln_2(x))?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.ln_2(super().forward(x))


class _NormThatKeepsItsInput(reference.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        normed = centred / torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + self.eps)  # keeps x for backward
        return normed * self.weight if self.bias is None else normed * self.weight + self.bias


@another_form(input_changed_in_place)
class input_changed_in_place_below_the_norm(input_changed_in_place):
    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.ln_1, self.ln_2 = _NormThatKeepsItsInput(n_embd, bias), _NormThatKeepsItsInput(n_embd, bias)
