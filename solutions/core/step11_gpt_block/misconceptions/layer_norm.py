"""What learners get wrong in `LayerNorm`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step11_gpt_block import reference


class Normalising(reference.LayerNorm):
    """The reference's norm, taken apart: each misconception below takes one part in its own way."""

    dim = -1

    def forward(self, x: Tensor) -> Tensor:
        return self.finish(self.normed(x))

    def centred(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=self.dim, keepdim=True)

    def variance(self, centred: Tensor) -> Tensor:
        return centred.square().mean(dim=self.dim, keepdim=True)

    def spread(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance + self.eps)

    def normed(self, x: Tensor) -> Tensor:
        centred = self.centred(x)
        return centred / self.spread(self.variance(centred))

    def finish(self, normed: Tensor) -> Tensor:
        return normed * self.weight if self.bias is None else normed * self.weight + self.bias


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class unbiased_variance(Normalising):
    """The sum of squares was divided by n_embd - 1 instead of n_embd.

    That is the variance a statistician estimates from a sample, and the default of torch.var. GPT-2's norm takes the
    biased variance: the plain mean of the squares.

    Which argument of torch.var decides by what the sum is divided?
    """

    def variance(self, centred: Tensor) -> Tensor:
        return centred.var(dim=self.dim, keepdim=True)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class eps_outside_the_root(Normalising):
    """eps was added to the standard deviation, after the square root was taken.

    For vectors with little spread that is another number, and where the spread is 0 the root has no gradient.

    Which sum stands under the root in the formula?
    """

    def spread(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance) + self.eps


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class eps_argument_ignored(Normalising):
    """eps was written into the formula as a number, 1e-5 for instance, whatever eps the norm was made with.

    Someone who asks for another eps gets that number.

    Where must the argument be kept, so that forward can use it?
    """

    number = 1e-5

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__(n_embd, bias, self.number)


@another_form(eps_argument_ignored)
class a_millionth_for_eps(eps_argument_ignored):
    number = 1e-6


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class no_eps(Normalising):
    """Nothing was added to the variance.

    A vector of equal numbers has variance 0, and 0 divided by 0 is not a number.

    What is the third argument of LayerNorm for?
    """

    def spread(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class divided_by_variance(Normalising):
    """The vector was divided by its variance, without the square root.

    The result then has variance 1 only when the variance was 1 before.

    When all the numbers of a vector are doubled, by what does its variance grow, and by what should it be divided?
    """

    def spread(self, variance: Tensor) -> Tensor:
        return variance + self.eps


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand", misses_the_point=True)
class mean_not_subtracted(Normalising):
    """The vector was divided by the root of its mean square, and its mean was not subtracted.

    That is another norm, RMSNorm. GPT-2's LayerNorm moves the mean to 0 first.

    What is the mean of your result for the vector (0, 6), before weight and bias?
    """

    def centred(self, x: Tensor) -> Tensor:
        return x


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_far_from_zero")
class mean_of_squares_minus_square_of_mean(Normalising):
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
class statistics_without_gradient(Normalising):
    """Mean and variance were detached from the gradient.

    The output is right, but every number of a vector also acts through its mean and variance, and that part of the
    gradient is missing.

    Where does the gradient of x stop on its way through your forward?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True).detach()
        return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True).detach() + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class one_norm_for_the_whole_tensor(Normalising):
    """Mean and variance were taken over several vectors together, if not over the whole tensor.

    Then the tokens, or the sequences of a batch, change each other's output.

    Over which dimension does the vector of one token lie?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = x - x.mean()
        return centred / torch.sqrt(centred.square().mean() + self.eps)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class norm_of_its_input_in_place(Normalising):
    """The vectors that came in were shifted where they lie, by `x -= ...` or a method whose name ends in `_`.

    The block still needs them: what the branch gives is added to the stream as it was before the norm.

    Which of your lines changes `x` itself, and not only what the name stands for?
    """

    def normed(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x -= x.mean(dim=-1, keepdim=True)
        return super().normed(x)


@misconception(replaces="LayerNorm", caught_by="test_layer_norm")
class bias_always_there(Normalising):
    """The norm had a bias, also when it was made with bias=False.

    A state dict without that bias then does not fit.

    What can self.bias be, so that the module has no such parameter?
    """

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__(n_embd, True, eps)


@misconception(replaces="LayerNorm", caught_by="test_dtypes_meta_and_inputs")
class norm_returns_float32(Normalising):
    """The result came back in float32, whatever dtype came in.

    Computing the mean of squares in float32 is good for bfloat16, but the next layer expects the dtype of the stream.

    Which dtype did x have?
    """

    def finish(self, normed: Tensor) -> Tensor:
        return super().finish(normed).float()


@misconception(replaces="LayerNorm", caught_by="test_dtypes_meta_and_inputs")
class absent_bias_as_plain_tensor(Normalising):
    """With bias=False a plain tensor of zeros was added in place of the bias.

    A plain tensor does not go with the module when it is moved to another device or dtype.

    What has to be added when there is no bias?
    """

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__(n_embd, bias, eps)
        self.zeros = torch.zeros(n_embd)

    def finish(self, normed: Tensor) -> Tensor:
        return normed * self.weight + (self.zeros if self.bias is None else self.bias)


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="LayerNorm", caught_by="test_any_regime")
class result_in_kept_memory(Normalising):
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


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(one_norm_for_the_whole_tensor)
class norm_over_the_tokens(Normalising):
    dim = 1


@another_form(eps_argument_ignored)
class a_trillionth_for_eps(eps_argument_ignored):
    number = 1e-12


@another_form(eps_argument_ignored)
class a_hundred_millionth_for_eps(eps_argument_ignored):
    number = 1e-8


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class eps_added_after_the_division(Normalising):
    """eps was added to the quotient, and not to the variance before its root was taken.

    A product or a quotient is computed before a sum: without brackets, `x / sqrt(var) + eps` divides first. A vector of
    equal numbers then is 0 divided by 0.

    Where do the brackets open and close around the sum with eps?
    """

    def normed(self, x: Tensor) -> Tensor:
        centred = self.centred(x)
        return centred / torch.sqrt(self.variance(centred)) + self.eps


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class weight_not_applied(Normalising):
    """The normed vectors were not multiplied by `weight`.

    What the norm learns is how far each column is stretched and shifted. Here `weight` never learns.

    Which of the two parameters does your forward never use?
    """

    def finish(self, normed: Tensor) -> Tensor:
        return normed if self.bias is None else normed + self.bias


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class bias_not_applied(Normalising):
    """`bias` was not added to the scaled vectors.

    What the norm learns is how far each column is stretched and shifted. Here `bias` never learns.

    Which of the two parameters does your forward never use?
    """

    def finish(self, normed: Tensor) -> Tensor:
        return normed * self.weight


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class bias_scaled_by_the_weight(Normalising):
    """`bias` was added first, and the sum was multiplied by `weight`.

    The shift is then stretched too, and a trained model's biases give other numbers.

    Which of the two comes first, scaling or shifting?
    """

    def finish(self, normed: Tensor) -> Tensor:
        return normed * self.weight if self.bias is None else (normed + self.bias) * self.weight


@misconception(replaces="LayerNorm", caught_by="test_layer_norm_by_hand")
class one_added_to_the_weight(Normalising):
    """The normed vectors were multiplied by 1 + weight.

    Some models, as Gemma, keep the scale's distance from 1 in their weight. GPT-2 keeps the scale itself.

    With which weight should the norm leave the normed vectors as they are: 0 or 1?
    """

    def finish(self, normed: Tensor) -> Tensor:
        scaled = normed * (1.0 + self.weight)
        return scaled if self.bias is None else scaled + self.bias
