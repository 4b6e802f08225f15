"""What learners get wrong in step 11, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception, together
from solutions.core.step11_gpt_block import reference


class _LayerNorm(reference.LayerNorm):
    """The reference's norm, taken apart: each misconception below takes one part in its own way."""

    def forward(self, x: Tensor) -> Tensor:
        return self.finish(self.normed(x))

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + self.eps)

    def finish(self, normed: Tensor) -> Tensor:
        return normed * self.weight if self.bias is None else normed * self.weight + self.bias


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class unbiased_variance(_LayerNorm):
    """The sum of squares was divided by n_embd - 1 instead of n_embd.

    That is the variance a statistician estimates from a sample, and the default of torch.var. GPT-2's norm takes the
    biased variance: the plain mean of the squares.

    Which argument of torch.var decides by what the sum is divided?
    """

    def normed(self, x: Tensor) -> Tensor:
        return (x - x.mean(dim=-1, keepdim=True)) / torch.sqrt(x.var(dim=-1, keepdim=True) + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class eps_outside_the_root(_LayerNorm):
    """eps was added to the standard deviation, after the square root was taken.

    For vectors with little spread that is another number, and where the spread is 0 the root has no gradient.

    Which sum stands under the root in the formula?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / (torch.sqrt(centred.square().mean(dim=-1, keepdim=True)) + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class eps_argument_ignored(_LayerNorm):
    """eps was written into the formula as 1e-5, whatever eps the norm was made with.

    Someone who asks for another eps gets the default.

    Where must the argument be kept, so that forward can use it?
    """

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__(n_embd, bias)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class no_eps(_LayerNorm):
    """Nothing was added to the variance.

    A vector of equal numbers has variance 0, and 0 divided by 0 is not a number.

    What is the third argument of LayerNorm for?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True))


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class divided_by_variance(_LayerNorm):
    """The vector was divided by its variance, without the square root.

    The result then has variance 1 only when the variance was 1 before.

    When all the numbers of a vector are doubled, by what does its variance grow, and by what should it be divided?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / (centred.square().mean(dim=-1, keepdim=True) + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand", misses_the_point=True)
class mean_not_subtracted(_LayerNorm):
    """The vector was divided by the root of its mean square, and its mean was not subtracted.

    That is another norm, RMSNorm. GPT-2's LayerNorm moves the mean to 0 first.

    What is the mean of your result for the vector (0, 6), before weight and bias?
    """

    def normed(self, x: Tensor) -> Tensor:
        return x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_far_from_zero")
class mean_of_squares_minus_square_of_mean(_LayerNorm):
    """The variance was computed as the mean of the squares minus the square of the mean.

    On paper that is the same. Far from zero both are large and nearly equal, and float32 keeps no digits of their
    difference: it may even come out negative.

    Can the mean be subtracted before anything is squared?
    """

    def normed(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = (x * x).mean(dim=-1, keepdim=True) - mean * mean
        return (x - mean) / torch.sqrt(variance + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class statistics_without_gradient(_LayerNorm):
    """Mean and variance were detached from the gradient.

    The output is right, but every number of a vector also acts through its mean and variance, and that part of the
    gradient is missing.

    Where does the gradient of x stop on its way through your forward?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True).detach()
        return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True).detach() + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class one_norm_for_the_whole_tensor(_LayerNorm):
    """Mean and variance were taken over several vectors together, if not over the whole tensor.

    Then the tokens, or the sequences of a batch, change each other's output.

    Over which dimension does the vector of one token lie?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean()
        return centred / torch.sqrt(centred.square().mean() + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class norm_of_its_input_in_place(_LayerNorm):
    """The vectors that came in were shifted where they lie, by `x -= ...` or a method whose name ends in `_`.

    The block still needs them: what the branch gives is added to the stream as it was before the norm.

    Which of your lines changes `x` itself, and not only what the name stands for?
    """

    def normed(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x -= x.mean(dim=-1, keepdim=True)
        return super().normed(x)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class bias_always_there(_LayerNorm):
    """The norm had a bias, also when it was made with bias=False.

    A state dict without that bias then does not fit.

    What can self.bias be, so that the module has no such parameter?
    """

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__(n_embd, True, eps)


@misconception(replaces="LayerNorm", caught_by="test_dtypes_meta_and_inputs")
class norm_returns_float32(_LayerNorm):
    """The result came back in float32, whatever dtype came in.

    Computing the mean of squares in float32 is good for bfloat16, but the next layer expects the dtype of the stream.

    Which dtype did x have?
    """

    def finish(self, normed: Tensor) -> Tensor:
        return super().finish(normed).float()


@misconception(replaces="LayerNorm", caught_by="test_dtypes_meta_and_inputs")
class absent_bias_as_plain_tensor(_LayerNorm):
    """With bias=False a plain tensor of zeros was added in place of the bias.

    A plain tensor does not go with the module when it is moved to another device or dtype.

    What has to be added when there is no bias?
    """

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__(n_embd, bias, eps)
        self.zeros = torch.zeros(n_embd)

    def finish(self, normed: Tensor) -> Tensor:
        return normed * self.weight + (self.zeros if self.bias is None else self.bias)


@misconception(replaces="gelu", caught_by="test_gelu")
def tanh_by_exponentials(x: Tensor) -> Tensor:
    """The tanh was computed as (exp(2y) - 1) / (exp(2y) + 1), as its formula says.

    For large x exp(2y) overflows, and infinity divided by infinity is not a number. GPT-2 meets such x.

    Which function of torch computes the same without overflow?
    """
    doubled = torch.exp(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * (1.0 + (doubled - 1.0) / (doubled + 1.0))


@misconception(replaces="gelu", caught_by="test_gelu")
def exact_gelu(x: Tensor) -> Tensor:
    """The exact GELU was computed, with the error function erf.

    GPT-2 was trained with the tanh form. The two differ by up to 0.0005, which adds up over twelve layers.

    Which function stands in GPT-2's formula in the place of erf?
    """
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


@misconception(replaces="gelu", caught_by="test_gelu")
def gelu_by_sigmoid(x: Tensor) -> Tensor:
    """The short form with a sigmoid, x * sigmoid(1.702 * x), was computed.

    It is a coarser way to come near the same curve, off by up to 0.02.

    Which terms stand inside the tanh of GPT-2's form?
    """
    return x * torch.sigmoid(1.702 * x)


@misconception(replaces="gelu", caught_by="test_gelu")
def relu_instead(x: Tensor) -> Tensor:
    """A ReLU was computed: the negative numbers were cut off.

    GELU lets a little of the small negative numbers through, and is smooth at 0.

    What is gelu(-1), worked out by hand?
    """
    return torch.relu(x)


@misconception(replaces="gelu", caught_by="test_gelu")
def root_forgotten_in_gelu(x: Tensor) -> Tensor:
    """The factor in front of the bracket was 2 / pi, without its square root.

    2 / pi is 0.637, and its root is 0.798: the curve comes out too flat.

    What is the factor before x + 0.044715 * x ** 3?
    """
    return 0.5 * x * (1.0 + torch.tanh(2.0 / math.pi * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def cube_forgotten_in_gelu(x: Tensor) -> Tensor:
    """The term with the third power of x was left out.

    Near 0 it makes no difference, around 2 it does.

    What is added to x inside the bracket?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * x))


@misconception(replaces="gelu", caught_by="test_gelu")
def half_forgotten_in_gelu(x: Tensor) -> Tensor:
    """The factor 0.5 in front was left out.

    1 + tanh goes from 0 to 2, so that large numbers come out doubled and not as they are.

    What should gelu(30) be?
    """
    return x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def ten_times_the_cube(x: Tensor) -> Tensor:
    """The third power of x was multiplied by 0.44715.

    The number is 0.044715, a tenth of that.

    How many zeros stand in it before the first 4?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.44715 * x**3)))


@misconception(replaces="MLP", caught_by="test_mlp")
class not_four_times_wider(reference.MLP):
    """The layer in between was not four times as wide as the stream.

    GPT-2's MLP is four times wider inside: c_fc goes to 4 * n_embd, and c_proj comes back.

    What are the two sizes of c_fc?
    """

    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, dropout, bias)
        self.c_fc = nn.Linear(n_embd, n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)


@misconception(replaces="MLP", caught_by="test_mlp")
class relu_in_the_mlp(reference.MLP):
    """Between its two layers the MLP took ReLU.

    GPT-2 was trained with gelu, which lets a little of the negative numbers through. This step has its own function.

    Which function of this file stands between c_fc and c_proj?
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.c_proj(self.c_fc(x).relu()), self.dropout, self.training)


@misconception(replaces="MLP", caught_by="test_mlp")
class no_activation(reference.MLP):
    """c_proj was applied to the output of c_fc, with no gelu in between.

    Two linear layers in a row are one linear layer, and the width in between is of no use.

    What makes the MLP more than a matrix?
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.c_proj(self.c_fc(x)), self.dropout, self.training)


@misconception(replaces="MLP", caught_by="test_mlp")
class activation_at_the_end(reference.MLP):
    """gelu was applied once more, to the output of c_proj.

    What the branch adds to the stream could then hardly be negative.

    After which of the two layers does gelu stand?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.gelu(super().forward(x))


@misconception(replaces="MLP", caught_by="test_mlp")
class mlp_bias_always_there(reference.MLP):
    """The linear layers had a bias, also when the MLP was made with bias=False.

    A state dict without those biases then does not fit.

    Which argument of nn.Linear decides about its bias?
    """

    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, dropout, True)


@misconception(replaces="MLP", caught_by="test_dropout")
class mlp_never_drops(reference.MLP):
    """The MLP took the argument dropout and dropped nothing.

    In training every number of its output was there.

    What is the last thing that happens in the MLP?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(reference.gelu(self.c_fc(x)))


@misconception(replaces="MLP", caught_by="test_dropout")
class mlp_drops_in_eval(reference.MLP):
    """The MLP dropped numbers in evaluation too.

    Its output then changes from call to call when the model is in use.

    How does F.dropout learn whether the module is in training?
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.c_proj(reference.gelu(self.c_fc(x))), self.dropout)


@misconception(replaces="MLP", caught_by="test_dropout")
class mlp_drops_only_in_eval(reference.MLP):
    """The two modes changed places: the MLP dropped numbers in evaluation, and none in training.

    Dropout is there to make training harder. In use the answer should be the same every time.

    `self.training` is True in training. What does F.dropout expect as its third argument?
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.c_proj(reference.gelu(self.c_fc(x))), self.dropout, not self.training)


@misconception(replaces="MLP", caught_by="test_dropout")
class mlp_drops_in_between(reference.MLP):
    """Dropout was applied between gelu and c_proj.

    Every number of the output then still gets something, from the hidden numbers that were kept.

    What comes first here, c_proj or dropout?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.dropout(reference.gelu(self.c_fc(x)), self.dropout, self.training))


@misconception(replaces="MLP", caught_by="test_dropout")
class mlp_drops_twice(reference.MLP):
    """Dropout was applied after gelu and once more after c_proj.

    GPT-2's MLP drops once, from what it gives. The hidden numbers are all kept.

    How many dropouts does the docstring of MLP's forward name?
    """

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(reference.gelu(self.c_fc(x)), self.dropout, self.training)
        return F.dropout(self.c_proj(hidden), self.dropout, self.training)


@misconception(replaces="MLP", caught_by="test_mlp")
class mlp_default_of_one_tenth(reference.MLP):
    """The default of dropout was 0.1.

    The step asks for 0: whoever names no rate wants nothing dropped.

    Where in `__init__` does the default stand?
    """

    def __init__(self, n_embd: int, dropout: float = 0.1, bias: bool = True) -> None:
        super().__init__(n_embd, dropout, bias)


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class post_norm(reference.Block):
    """The norms were applied after the additions, as in the first Transformer.

    GPT-2 norms what a branch reads, and leaves the stream itself alone (pre-norm).

    What do attn and mlp read, and what is their output added to?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x + self.attn(x))
        normed: Tensor = self.ln_2(x + self.mlp(x))
        return normed


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class norm_after_the_branch(reference.Block):
    """The norms were applied to what attn and mlp returned, before it was added.

    GPT-2 norms what a branch reads, so that it always sees numbers of ordinary size. Here both branches read the stream
    as it is, and all that they add has one and the same size.

    In `x + attn(ln_1(x))`, which is called first: the norm or the attention?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ln_1(self.attn(x))
        added: Tensor = x + self.ln_2(self.mlp(x))
        return added


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
class attention_not_added(reference.Block):
    """The output of attention took the place of the stream: it was not added to it.

    All that the earlier layers found is lost there, and so is the direct path of the gradient.

    What becomes of x when attention has nothing to add?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


@misconception(replaces="Block", caught_by="test_block", misses_the_point=True)
class mlp_not_added(reference.Block):
    """The output of the MLP took the place of the stream: it was not added to it.

    The stream ends there, and with it what attention has just gathered.

    How many additions does one block have?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        came: Tensor = self.mlp(self.ln_2(x))
        return came


@misconception(replaces="Block", caught_by="test_block")
class added_to_the_normed_input(reference.Block):
    """The output of each branch was added to the normed stream, not to the stream itself.

    This happens when x is overwritten by its norm. The stream is then rescaled in every layer.

    Which x is still needed after ln_1 was applied?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        x = x + self.attn(x)
        x = self.ln_2(x)
        return x + self.mlp(x)


@misconception(replaces="Block", caught_by="test_block")
class one_norm_for_both(reference.Block):
    """ln_1 was used before both branches, and ln_2 was never used.

    Each branch has learned a norm of its own, and the weights of ln_2 have no effect.

    Which norm does the MLP read through?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_1(x))


@misconception(replaces="Block", caught_by="test_block")
class branches_side_by_side(reference.Block):
    """The MLP read the stream as it was before attention had added to it.

    Some models put their branches side by side like this. GPT-2's MLP comes after attention and reads what it found.

    What is x at the moment when ln_2 reads it?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.ln_1(x)) + self.mlp(self.ln_2(x))


@misconception(replaces="Block", caught_by="test_block")
class mlp_comes_first(reference.Block):
    """The stream went through the MLP first, and through attention then.

    In GPT-2 the MLP works on what attention has gathered in the same block. Here it gets it only in the next one.

    Which of the two branches reads through ln_1?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mlp(self.ln_2(x))
        return x + self.attn(self.ln_1(x))


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
class mlp_without_norm(reference.Block):
    """The MLP read the stream itself, not the stream through ln_2.

    The stream grows from layer to layer, and what the MLP is given grows with it.

    Where does ln_2 stand?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(x)


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
class attention_without_norm(reference.Block):
    """Attention read the stream itself, not the stream through ln_1.

    The stream grows from layer to layer, and the scores of attention grow with it.

    Where does ln_1 stand?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        return x + self.mlp(self.ln_2(x))


@misconception(replaces="Block", caught_by="test_block")
class stream_without_gradient(reference.Block):
    """The stream was detached before the branches were added to it.

    The output is right, but the gradient must now pass through every branch to reach the first layers.

    Which path should the gradient take when both branches add nothing?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach() + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


@misconception(replaces="Block", caught_by="test_dropout")
class dropout_not_handed_on(reference.Block):
    """The block took the argument dropout, and did not hand it on to all of its parts.

    A part that is not told has its default of 0, and what it adds is never dropped.

    Which arguments do attn and mlp need to hear about?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, 0.0, bias)


@misconception(replaces="Block", caught_by="test_block")
class bias_not_handed_on(reference.Block):
    """The block took the argument bias, and did not hand it on to its parts.

    With bias=False its norms and linear layers had biases all the same.

    Which of the four parts know the argument bias?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, True)


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
class branches_dropped_again(reference.Block):
    """The block dropped once more from what attention and the MLP gave, before it added that to the stream.

    Both drop from their output themselves. What two dropouts keep is less than what was asked for.

    Which of the parts of a block know the rate of dropout already?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self.attn(self.ln_1(x)), self.mlp.dropout, self.training)
        return x + F.dropout(self.mlp(self.ln_2(x)), self.mlp.dropout, self.training)


@misconception(replaces="Block", caught_by="test_dropout")
class norm_output_dropped(reference.Block):
    """What the first norm gave was dropped on its way to the attention.

    The parts have their own dropout: attention drops weights and its output, the MLP its output. The block itself drops
    nothing.

    In the formula of the block, what stands between the first norm and the attention?
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(F.dropout(self.ln_1(x), self.mlp.dropout, self.training))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="LayerNorm", caught_by="test_any_regime")
class result_in_kept_memory(_LayerNorm):
    """Without gradients the result was written into a tensor that the module keeps.

    The next call writes over it, and whoever still holds the first result then holds the second one twice.

    How long does the caller need a result, and does the module know when that ends?
    """

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        if torch.is_grad_enabled() or result.is_meta:
            return result
        if getattr(self, "_kept", None) is None or self._kept.shape != result.shape or self._kept.dtype != result.dtype:
            object.__setattr__(self, "_kept", torch.empty_like(result))
        kept: Tensor = self._kept
        return kept.copy_(result)


@misconception(replaces="MLP", caught_by="test_any_regime")
class three_axes_at_most(reference.MLP):
    """The inputs were brought to three axes, batch, tokens and width, and no more than three were foreseen.

    The step says any number of leading axes: with several heads or groups there are four of them, or five.

    Which functions of torch work on the last axis alone, however many stand before it?
    """

    def forward(self, x: Tensor) -> Tensor:
        batch = x[(None,) * (3 - x.dim())]
        hidden = reference.gelu(torch.einsum("btd,fd->btf", batch, self.c_fc.weight) + _or_zero(self.c_fc.bias))
        added = torch.einsum("btf,df->btd", hidden, self.c_proj.weight) + _or_zero(self.c_proj.bias)
        return F.dropout(added, self.dropout, self.training).reshape(x.shape)


def _or_zero(bias: Tensor | None) -> Tensor | float:
    return 0.0 if bias is None else bias


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(added_to_the_normed_input)
class attention_added_to_the_normed_input(reference.Block):
    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        x = x + self.attn(x)
        return x + self.mlp(self.ln_2(x))


@another_form(added_to_the_normed_input)
class mlp_added_to_the_normed_input(reference.Block):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        x = self.ln_2(x)
        return x + self.mlp(x)


@another_form(one_norm_for_the_whole_tensor)
class norm_over_the_tokens(_LayerNorm):
    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=1, keepdim=True)
        return centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + self.eps)


@another_form(not_four_times_wider)
class twice_as_wide(reference.MLP):
    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, dropout, bias)
        self.c_fc = nn.Linear(n_embd, 2 * n_embd, bias=bias)
        self.c_proj = nn.Linear(2 * n_embd, n_embd, bias=bias)


@misconception(replaces="gelu", caught_by="test_gelu")
def constants_of_gelu_exchanged(x: Tensor) -> Tensor:
    """The two constants changed places: 0.044715 stood before the bracket, and sqrt(2 / pi) before the cube.

    The bracket is then far too small for ordinary numbers, and tanh hardly moves away from 0.

    Which of the two numbers belongs to x ** 3, and which to the whole bracket?
    """
    return 0.5 * x * (1.0 + torch.tanh(0.044715 * (x + math.sqrt(2.0 / math.pi) * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def factor_of_gelu_turned_over(x: Tensor) -> Tensor:
    """The factor in front of the bracket was sqrt(pi / 2): the fraction stood upside down.

    sqrt(pi / 2) is 1.25, and sqrt(2 / pi) is 0.80: the curve comes out too steep.

    Which of 2 and pi stands above the fraction line?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(math.pi / 2.0) * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def square_in_gelu(x: Tensor) -> Tensor:
    """The second power of x stood in the bracket, where the third belongs.

    A square is never negative, so the curve loses its symmetry: the bracket should only change its sign with x.

    To which power is x raised beside 0.044715?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**2)))


@misconception(replaces="gelu", caught_by="test_gelu")
def factor_of_gelu_before_x_only(x: Tensor) -> Tensor:
    """The factor sqrt(2 / pi) was multiplied with x alone, and not with the whole bracket.

    The term with the cube is a part of the bracket, and the factor stands before it.

    Where does the bracket begin, and where does it end?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * x + 0.044715 * x**3))


# --- two at once ------------------------------------------------------------------------------------------------------

Branch = Callable[[nn.Module, nn.Module, Tensor], Tensor]  # from its norm, its part and the stream to the stream


def _added(norm: nn.Module, part: nn.Module, x: Tensor) -> Tensor:
    return x + part(norm(x))


def _block(first: Branch, second: Branch, *, one_norm: bool = False) -> type:
    class Block(reference.Block):
        def forward(self, x: Tensor) -> Tensor:
            x = first(self.ln_1, self.attn, x)
            return second(self.ln_1 if one_norm else self.ln_2, self.mlp, x)

    return Block


def _norm(
    centre: Callable[[Tensor], Tensor],
    variance: Callable[[Tensor, Tensor], Tensor],
    spread: Callable[[Tensor, float], Tensor],
) -> type:
    class LayerNorm(_LayerNorm):
        def normed(self, x: Tensor) -> Tensor:
            return centre(x) / spread(variance(x, centre(x)), self.eps)

    return LayerNorm


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


def _unbiased(x: Tensor, centred: Tensor) -> Tensor:
    return x.var(dim=-1, keepdim=True)


ATTENTIONS: dict[type, Branch] = {
    attention_not_added: lambda norm, part, x: part(norm(x)),
    attention_without_norm: lambda norm, part, x: x + part(x),
}
MLPS: dict[type, Branch] = {
    mlp_not_added: lambda norm, part, x: part(norm(x)),
}
POST_NORMS: dict[type, tuple[Branch, Branch]] = {
    attention_not_added: (lambda norm, part, x: norm(part(x)), lambda norm, part, x: norm(x + part(x))),
    mlp_not_added: (lambda norm, part, x: norm(x + part(x)), lambda norm, part, x: norm(part(x))),
}
SPREADS = {
    eps_outside_the_root: lambda variance, eps: variance.sqrt() + eps,
    no_eps: lambda variance, eps: variance.sqrt(),
    divided_by_variance: lambda variance, eps: variance + eps,
}
GELUS = {
    root_forgotten_in_gelu: 2.0 / math.pi,
}


def _gelu(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: 0.5 * x * (1.0 + torch.tanh(factor * x))


PAIRS = [
    *together(ATTENTIONS, MLPS, _block),
    *together({post_norm: None}, POST_NORMS, lambda _, branches: _block(*branches)),
    *together({one_norm_for_both: None}, ATTENTIONS, lambda _, attention: _block(attention, _added, one_norm=True)),
    *together({one_norm_for_both: None}, MLPS, lambda _, mlp: _block(_added, mlp, one_norm=True)),
    *together({unbiased_variance: _unbiased}, SPREADS, lambda variance, spread: _norm(_centred, variance, spread)),
    *together(
        (eps_argument_ignored,), (unbiased_variance, eps_outside_the_root, divided_by_variance, mean_not_subtracted)
    ),
    *together(GELUS, {cube_forgotten_in_gelu: None}, lambda factor, _: _gelu(factor)),
    *together((mlp_bias_always_there,), (mlp_never_drops,)),
]
