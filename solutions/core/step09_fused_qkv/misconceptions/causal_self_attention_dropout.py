"""What learners get wrong in `CausalSelfAttention`: the dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step09_fused_qkv.misconceptions.pieces import Pieces


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class no_dropout_on_weights(Pieces):
    """Only the output was dropped, the attention weights were not.

    In GPT-2's layout `dropout` acts twice: on the attention weights, and on what comes out of `c_proj`.

    If you use `scaled_dot_product_attention`: which of its arguments drops weights, and what is its default?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.weights(self.scores(query, key)) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class no_dropout_on_output(Pieces):
    """Only the attention weights were dropped, the output was not.

    In GPT-2's layout `dropout` acts twice: on the attention weights, and on what comes out of `c_proj`.

    What happens in your `forward` between `c_proj` and `return`?
    """

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(merged)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class dropout_before_projection(Pieces):
    """The second dropout acted on the merged heads, before `c_proj`, and not on the output.

    `c_proj` mixes its inputs, so a number dropped before it is missing from every output a little, and none is 0.

    In which order does your `forward` call `c_proj` and the second dropout?
    """

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(self.resid_dropout(merged))


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class dropout_on_context_and_output(Pieces):
    """The first dropout acted on the context, after the weighted sum, and not on the weights.

    Dropout on the weights leaves whole tokens out of an average. On the context it drops single numbers.

    Between which two lines of your `forward` do the weights exist, but the context does not yet?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(self.weights(self.scores(query, key)) @ value)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class one_dropout_mask_for_all_heads(Pieces):
    """One dropout mask was drawn for the weights of a sequence and used by all of its heads.

    Dropout decides about each weight by itself; here the heads always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return weights * self.attn_dropout(torch.ones_like(weights[:, :1])) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class whole_rows_of_weights_dropped(Pieces):
    """The weights of a query were dropped all together, or kept all together.

    Dropout decides about each weight by itself; here a token loses everything that it attends to.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return weights * self.attn_dropout(torch.ones_like(weights[..., :1])) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class same_columns_of_every_token_dropped(Pieces):
    """The second dropout dropped the same columns of every token in a sequence.

    Dropout decides about each number of the output by itself.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def output(self, merged: Tensor) -> Tensor:
        output = self.c_proj(merged)
        return output * self.resid_dropout(torch.ones_like(output[:, :1]))


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class dropout_at_its_own_rate(Pieces):
    """The weights were dropped at a rate of the module's own, whatever the argument `dropout` says.

    A number written into the module, or the default of a dropout layer, stays the same for everyone who uses it.

    What is the default of the class that you made the dropout layer of, and where does the argument go?
    """

    rate = 0.5

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return F.dropout(weights, self.rate, self.training) @ value


@another_form(dropout_at_its_own_rate)
class dropout_of_one_tenth(dropout_at_its_own_rate):
    rate = 0.1


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class no_dropout(Pieces):
    """Nothing was dropped, not even in training.

    The argument `dropout` is the probability of a drop in training, on the weights and on the output.

    Where does your `forward` use what the constructor was given as `dropout`?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.weights(self.scores(query, key)) @ value

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(merged)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class weights_dropped_in_eval(Pieces):
    """The attention weights were dropped in eval mode too.

    `scaled_dot_product_attention` and `F.dropout` are functions: they know nothing of the mode unless they are told.

    How does a module know which mode it is in, and what should the rate be in eval mode?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=self.attn_dropout.p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class weights_dropped_only_in_eval(Pieces):
    """The two modes changed places: the attention weights were dropped in eval mode, and kept in training.

    Dropout is there to make training harder. In eval mode the answer should be the same every time.

    `self.training` is True in training. Which rate does your line choose then?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        p = 0.0 if self.training else self.attn_dropout.p
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class output_dropped_in_eval(Pieces):
    """The output was dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def output(self, merged: Tensor) -> Tensor:
        return F.dropout(self.c_proj(merged), self.resid_dropout.p)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class dropout_in_place(Pieces):
    """The dropout wrote its zeros into the attention weights themselves, in place.

    The softmax needs the weights that it gave to compute its gradient. They are written over, so in training every
    backward pass ends in an error.

    Which argument of the dropout, or which operation on the weights, makes no new tensor?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return F.dropout(weights, self.attn_dropout.p, self.training, inplace=True) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_follows_device")
class dropout_mask_made_on_the_cpu(Pieces):
    """The random numbers of a dropout were drawn on the CPU, wherever the weights and the output were.

    In training on a GPU the numbers and what they are multiplied by then lie on two devices.

    How does `torch.rand` learn on which device to draw?
    """

    def drop(self, x: Tensor) -> Tensor:
        p = self.attn_dropout.p
        return x * (torch.rand(x.shape) >= p) / (1 - p) if self.training else x

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.drop(self.weights(self.scores(query, key))) @ value

    def output(self, merged: Tensor) -> Tensor:
        return self.drop(self.c_proj(merged))


@misconception(replaces="CausalSelfAttention", caught_by="test_other_dtypes")
class dropout_mask_in_float32(Pieces):
    """In training the output was multiplied by a dropout mask of float32 numbers.

    Of two dtypes torch keeps the wider one, so the output of a bfloat16 module becomes float32.

    Which dtype should the mask have when it is multiplied with the output?
    """

    def output(self, merged: Tensor) -> Tensor:
        output, p = self.c_proj(merged), self.resid_dropout.p
        if self.training:
            output = output * (torch.rand(output.shape, device=output.device) >= p).float() / (1 - p)
        return output


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class dropout_mask_not_cut(Pieces):
    """The dropout mask was as large as the longest sequence, whatever the length of `x`.

    In training the weights of a shorter sequence are then multiplied by a mask that has more rows and columns.

    Which tensor has the shape that the random numbers need?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        if self.training and self.attn_dropout.p > 0:
            longest = self.visible.expand(*weights.shape[:2], -1, -1)
            weights = weights * self.attn_dropout(torch.ones_like(longest, dtype=weights.dtype))
        return weights @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class first_head_drops_alone(Pieces):
    """Only the weights of the first head were dropped, those of the others never.

    Dropout acts on all the weights there are, each drawn by itself.

    Which dimension of the weights counts the heads, and does your dropout see all of it?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        first, others = self.weights(self.scores(query, key)).tensor_split([1], dim=1)
        return torch.cat([self.attn_dropout(first), others], dim=1) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class context_dropped_too(Pieces):
    """Dropout acted three times: on the weights, on the context, and on the output.

    In GPT-2's layout it acts twice: on the attention weights, and on what comes out of `c_proj`.

    Which dropout of your `forward` acts on neither of these two?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(super().attend(query, key, value))


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class as_many_dropped_as_should_be_kept(Pieces):
    """The dropout layers were made with 1 - dropout.

    The argument is the probability that a number is dropped, and `nn.Dropout` takes just that. With dropout 0 every
    number was dropped.

    What does the `p` of `nn.Dropout` stand for: what is dropped, or what is kept?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, 1 - dropout, bias)
