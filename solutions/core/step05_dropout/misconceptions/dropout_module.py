"""What learners get wrong in `Dropout`, each with the check that catches it."""

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step05_dropout import reference
from solutions.core.step05_dropout.misconceptions.dropout import kept_or_refused, scale_of


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mode_not_looked_at(reference.Dropout):
    """The module dropped elements in eval mode too.

    `eval()` only changes a flag of the module. The function does not know of it unless it is told.

    In which attribute do `train()` and `eval()` keep the mode?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mode_remembered_from_start(reference.Dropout):
    """The module looked at its mode when it was made, and never again.

    A new module is in training mode. `eval()` comes later, and the copy of the flag does not change with it.

    When should `self.training` be read: when the module is made, or when it is called?
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.mode = self.training

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, self.mode)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mode_turned_round(reference.Dropout):
    """The module dropped in eval mode, and did nothing in training.

    The flag `self.training` is True in training, which is when elements have to be dropped.

    What is the value of `self.training` after `eval()`, and what should happen then?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, not self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_never_drops(reference.Dropout):
    """The module dropped nothing in any mode.

    A model that is trained with it learns as if there were no dropout.

    Which value does your `forward` hand on as `training`, and what is it after `train()`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, False)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class own_probability_forgotten(reference.Dropout):
    """The module called the function without its own p, so the function's default was used.

    Whatever p the module was made with, half of the elements were dropped.

    How does the p of `__init__` reach `forward`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, training=self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mask_kept_from_first_call(reference.Dropout):
    """The module drew one mask and used it again in the next calls.

    The same elements were dropped each time, so the rest of the model never has to do without the others.

    Where is the mask drawn, and how often is that line run?
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if self.kept is None:
            self.kept = kept_or_refused(x, self.p)
        return x * self.kept * scale_of(self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_scales_in_eval(reference.Dropout):
    """In eval mode the module multiplied its input by 1 - p.

    Inverted dropout has scaled in training already, so that eval mode leaves everything as it is.

    What should come out of the module after `eval()`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p) if self.training else x * (1 - self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_default_of_one_tenth(reference.Dropout):
    """The default of the module's p was 0.1.

    The step asks for 0.5, as in the function.

    Where in `__init__` does the default stand?
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_draws_once_a_row(reference.Dropout):
    """The module drew one number for each row of x, and dropped or kept the row as a whole.

    What the row says is then lost altogether. Each element has to be drawn by itself, in the module as in the function.

    What is the shape of the random numbers in `forward`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * kept_or_refused(x[..., :1], self.p) * scale_of(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_draws_once_for_the_batch(reference.Dropout):
    """The module drew one mask and used it for every batch entry.

    Each batch entry then loses the same elements. Each element has to be drawn by itself, in the module as in the
    function.

    Which dimension is missing in the shape of the random numbers in `forward`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * kept_or_refused(x[:1] if x.dim() > 2 else x, self.p) * scale_of(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_not_a_number_at_one(reference.Dropout):
    """With p = 1 the module divided zeros by zero.

    Zero divided by zero is not a number. With p = 1 every element has to be 0.

    What is left to be scaled when everything is dropped?
    """

    def forward(self, x: Tensor) -> Tensor:
        kept = kept_or_refused(x, self.p)
        return x * kept / torch.tensor(1.0 - self.p, dtype=x.dtype, device=x.device) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_without_gradient(reference.Dropout):
    """The module worked on a copy of x that is cut off from it.

    The numbers are right, but no gradient gets through the module, so nothing in front of it can learn.

    Which call in `forward` leaves the graph?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x.detach(), self.p, self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_returns_float32(reference.Dropout):
    """The module multiplied x by a mask of float32, and the result came out in float32.

    torch takes the wider of two dtypes, so a bfloat16 comes back as something else.

    In which dtype should the mask be, or how can a boolean one be used without multiplying?
    """

    def forward(self, x: Tensor) -> Tensor:
        kept = kept_or_refused(x, self.p).float()
        return x * kept * scale_of(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_mask_made_on_cpu(reference.Dropout):
    """The module made its random numbers on the CPU, wherever x is.

    A mask on the CPU cannot be combined with a tensor on a GPU.

    From what can the random numbers take the device?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand(x.shape) >= self.p) * scale_of(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_for_two_dimensions(reference.Dropout):
    """The module asked for the rows and the columns of x, so that x has to be a matrix.

    A batch of sequences has three dimensions, and the weights of several heads have four.

    How do you draw random numbers in the shape of x, whatever that is?
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        rows, columns = x.shape
        return x * (torch.rand(rows, columns, device=x.device) >= self.p) * scale_of(self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_drops_in_place(reference.Dropout):
    """The module multiplied the tensor that it was given in place.

    Whoever needs that tensor once more, as a residual connection does, then meets the dropped one.

    Which operators of your `forward` make a new tensor, and which change x?
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x *= kept_or_refused(x, self.p)
            x *= scale_of(self.p)
        return x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class share_kept_handed_on(reference.Dropout):
    """The module handed 1 - p on, so that elements were kept with probability p.

    p is the probability of being dropped, in the module as in the function. With p = 0.5 the two are the same.

    What does the function do with the number that your `forward` gives it?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, 1 - self.p, self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_does_not_scale(reference.Dropout):
    """The module set elements to 0, and left the kept ones as they were.

    The sum is smaller in training than in use, so the next layer meets numbers of a size it has not learned from.

    If only 8 of 10 elements are left, by how much must each of them grow to keep the sum the same on average?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * kept_or_refused(x, self.p) if self.training else x


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="Dropout", caught_by="test_any_regime")
class own_train_without_a_mode(reference.Dropout):
    """`train` and `eval` were overridden, and `train` ignores its argument: it always turns dropout on.

    A module that is part of another is never told `eval()`: the parent calls `train(False)` of its parts.

    What does `nn.Module.eval` do, and what has nn.Module kept in `self.training` already?
    """

    dropping = True

    def train(self, mode: bool = True) -> "own_train_without_a_mode":
        self.dropping = True
        return self

    def eval(self) -> "own_train_without_a_mode":
        self.dropping = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, self.dropping)


@misconception(replaces="Dropout", caught_by="test_any_regime")
class probability_as_a_parameter(reference.Dropout):
    """The probability was made an `nn.Parameter`.

    Every optimiser would be handed it as something to learn, and a state dict of other dropout modules lacks it.

    Is p learned from data, or chosen once? Which kind of attribute is enough for a plain number?
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.rate = nn.Parameter(torch.tensor(float(p)), requires_grad=False)


@another_form(probability_as_a_parameter)
class probability_compared_as_a_parameter(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor(float(p)), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)


@another_form(module_without_gradient)
class module_under_no_grad(reference.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(x)
