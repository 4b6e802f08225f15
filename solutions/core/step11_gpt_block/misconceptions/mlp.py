"""What learners get wrong in `MLP`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step11_gpt_block import reference


@misconception(replaces="MLP", caught_by="test_mlp")
class not_four_times_wider(reference.MLP):
    """The layer in between was not four times as wide as the stream.

    GPT-2's MLP is four times wider inside: c_fc goes to 4 * n_embd, and c_proj comes back.

    What are the two sizes of c_fc?
    """

    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        with torch.random.fork_rng(devices=[]):  # what is drawn for the layers is as if they were made once
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
class another_activation_in_the_mlp(reference.MLP):
    """Between its two layers the MLP took a smooth function other than this step's gelu, such as SiLU or tanh.

    SiLU and the exact GELU are close to it, but GPT-2's weights were trained with GELU in its tanh form.

    Which function of this file stands between c_fc and c_proj?
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.c_proj(F.silu(self.c_fc(x))), self.dropout, self.training)


@another_form(another_activation_in_the_mlp)
class tanh_in_the_mlp(reference.MLP):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.c_proj(self.c_fc(x).tanh()), self.dropout, self.training)


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
    """gelu was applied to the output of c_proj.

    What the branch adds to the stream could then hardly be negative.

    After which of the two layers does gelu stand?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.gelu(super().forward(x))


@another_form(activation_at_the_end)
class activation_at_the_end_alone(reference.MLP):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(reference.gelu(self.c_proj(self.c_fc(x))), self.dropout, self.training)


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


# --- views, lengths and modes -----------------------------------------------------------------------------------------


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


@another_form(not_four_times_wider)
class twice_as_wide(reference.MLP):
    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        with torch.random.fork_rng(devices=[]):
            super().__init__(n_embd, dropout, bias)
        self.c_fc = nn.Linear(n_embd, 2 * n_embd, bias=bias)
        self.c_proj = nn.Linear(2 * n_embd, n_embd, bias=bias)


@another_form(activation_at_the_end)
class activation_at_the_end_before_dropout(reference.MLP):
    def forward(self, x: Tensor) -> Tensor:
        hidden = reference.gelu(self.c_fc(x))
        return F.dropout(reference.gelu(self.c_proj(hidden)), self.dropout, self.training)
