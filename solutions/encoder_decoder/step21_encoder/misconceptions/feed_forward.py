"""What learners get wrong in `FeedForward`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.encoder_decoder.step21_encoder.misconceptions.pieces import FeedForward, whole


@misconception(replaces=whole, caught_by="test_feed_forward")
class gelu_instead_of_relu(FeedForward):
    """A GELU was taken where the contract has a ReLU.

    GPT-2 and BERT have a GELU; the encoder of 2017 has a ReLU: what is below 0 becomes exactly 0.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return F.gelu(hidden)


@misconception(replaces=whole, caught_by="test_feed_forward")
class gelu_by_tanh_instead_of_relu(gelu_instead_of_relu):
    def activate(self, hidden: Tensor) -> Tensor:
        return F.gelu(hidden, approximate="tanh")


@misconception(replaces=whole, caught_by="test_feed_forward")
class no_activation(FeedForward):
    """Nothing stands between the two linear layers.

    Two linear layers in a row are one linear layer: the wide space in between then adds nothing.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return hidden


@misconception(replaces=whole, caught_by="test_feed_forward")
class tanh_instead_of_relu(FeedForward):
    """A tanh was taken where the contract has a ReLU.

    It holds large numbers back and keeps what is below 0; the ReLU does neither.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return torch.tanh(hidden)


@misconception(replaces=whole, caught_by="test_feed_forward")
class another_activation(FeedForward):
    """Another function than the ReLU stands between the two layers.

    A leaky ReLU, a SiLU or a sigmoid keeps something of what is below 0; the ReLU makes it exactly 0.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return F.leaky_relu(hidden)


@another_form(another_activation)
class silu_instead_of_relu(another_activation):
    def activate(self, hidden: Tensor) -> Tensor:
        return F.silu(hidden)


@another_form(another_activation)
class sigmoid_instead_of_relu(another_activation):
    def activate(self, hidden: Tensor) -> Tensor:
        return torch.sigmoid(hidden)


@misconception(replaces=whole, caught_by="test_feed_forward")
class relu_behind_the_second_layer(FeedForward):
    """The ReLU was taken of the output, behind the second layer.

    A branch that can only add and never take away is half a branch, and between the layers nothing is nonlinear.

    In `linear2(dropout(relu(linear1(x))))`, what does the ReLU act on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear2(self.dropout(self.linear1(x))))


@misconception(replaces=whole, caught_by="test_feed_forward")
class relu_behind_both_layers(FeedForward):
    """A second ReLU was taken of the output, behind the second layer.

    A branch that can only add and never take away is half a branch.

    How many times does relu stand in the contract's formula?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(super().forward(x))


@misconception(replaces=whole, caught_by="test_feed_forward")
class residual_inside_feed_forward(FeedForward):
    """The input was added to the feed-forward's output, inside of it.

    The residual belongs to the block. With both of them the stream is added twice.

    What does the contract's formula of `FeedForward` begin with?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


@misconception(replaces=whole, caught_by="test_feed_forward")
class feed_forward_without_bias(FeedForward):
    """The two linear layers, or one of them, were made without a bias.

    The contract's layers have one: a state dict does not fit otherwise.

    What is the default of `nn.Linear`, and what did you tell it?
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, d_ff, dropout)
        self.linear1 = nn.Linear(d_model, d_ff, bias=False)
        self.linear2 = nn.Linear(d_ff, d_model, bias=False)


@another_form(feed_forward_without_bias)
class first_layer_without_bias(FeedForward):
    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, d_ff, dropout)
        self.linear1.register_parameter("bias", None)


@another_form(feed_forward_without_bias)
class second_layer_without_bias(FeedForward):
    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, d_ff, dropout)
        self.linear2.register_parameter("bias", None)


@misconception(replaces=whole, caught_by="test_feed_forward")
class feed_forward_as_a_sequential(FeedForward):
    """The layers were kept in an `nn.Sequential`.

    Their parameters are then called after their numbers in it, and no state dict with `linear1` and `linear2` fits.

    Under which names does the contract want the two layers?
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        nn.Module.__init__(self)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_in_feed_forward(FeedForward):
    """Nothing was dropped inside the feed-forward.

    The contract's formula has a dropout between the ReLU and the second layer.

    Where does your feed-forward use what its constructor was given as `dropout`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.activate(self.linear1(x)))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_behind_the_second_layer(FeedForward):
    """The dropout of the feed-forward acts on its output, behind the second layer.

    The block drops there already. Inside, hidden numbers are dropped, before the second layer sums them up.

    In `linear2(dropout(relu(linear1(x))))`, what does the dropout act on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.linear2(self.activate(self.linear1(x))))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_behind_both_layers(FeedForward):
    """The feed-forward drops twice: of its hidden numbers, and of its output.

    The output is dropped by the block, once more. Inside, the hidden numbers alone are dropped.

    How many times does dropout stand in `linear2(dropout(relu(linear1(x))))`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(super().forward(x))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_input(FeedForward):
    """The feed-forward drops of its input, before the first layer.

    The contract's dropout acts on the hidden numbers. A number of the input is missing in all of them when it falls.

    In `linear2(dropout(relu(linear1(x))))`, what does the dropout act on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.dropout(x))


@another_form(dropout_on_the_input)
class dropout_on_the_input_alone(dropout_on_the_input):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.activate(self.linear1(self.dropout(x))))


@misconception(replaces=whole, caught_by="test_feed_forward")
class feed_forward_drops_in_eval(FeedForward):
    """The feed-forward dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(F.dropout(self.activate(self.linear1(x)), self.dropout.p))
