"""What learners get wrong in `PositionalEncoding`, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step16_sinusoidal import reference
from solutions.positions.step16_sinusoidal.misconceptions.pieces import Pieces, even_columns, woven


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class first_axis_taken_for_the_tokens(Pieces):
    """The encoding of the first axis was added: every token of a sequence got that of its place in the batch.

    Some tutorials put the tokens first, `(T, B, d_model)`. Here the batch comes first and the tokens last but one.

    Which entry of `x.shape` counts the tokens, and which one does your slice use?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(x.shape[0], self.d_model, device=x.device).to(x.dtype)[:, None]


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class second_axis_taken_for_the_tokens(Pieces):
    """The tokens were taken for the second axis: right with one batch dimension, and with no other number of them.

    The tokens always stand last but one, whatever comes before.

    How do you count an axis from the end?
    """

    def check_length(self, x: Tensor) -> None:
        if x.shape[1] > self.max_len:
            raise ValueError(f"x has {x.shape[1]} tokens, but max_len is {self.max_len}")

    def table(self, x: Tensor) -> Tensor:
        longest = self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)
        return longest[None, : x.shape[1]]


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class as_many_rows_as_the_second_axis(second_axis_taken_for_the_tokens):
    """The tokens were taken for the second axis: right with one batch dimension, and with no other number of them.

    The tokens always stand last but one, whatever comes before.

    How do you count an axis from the end?
    """

    def table(self, x: Tensor) -> Tensor:
        return super().table(x)[0]


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class as_many_rows_as_the_first_axis(Pieces):
    """The table was cut to the length of the first axis, which counts the sequences of the batch.

    The tokens always stand last but one, whatever comes before.

    Which entry of `x.shape` counts the tokens, and which one does your slice use?
    """

    def check_length(self, x: Tensor) -> None:
        if len(x) > self.max_len:
            raise ValueError(f"x has {len(x)} tokens, but max_len is {self.max_len}")

    def table(self, x: Tensor) -> Tensor:
        longest = self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)
        return longest[: len(x)]


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class three_dimensions_only(Pieces):
    """The shape of x was unpacked into exactly three numbers.

    x may have any number of dimensions before its tokens, or none.

    Which of the three numbers do you need, and how do you count it from the end?
    """

    def check_length(self, x: Tensor) -> None:
        _batch, tokens, _width = x.shape
        if tokens > self.max_len:
            raise ValueError(f"x has {tokens} tokens, but max_len is {self.max_len}")


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class one_batch_dimension_too_many(Pieces):
    """A batch dimension of the table, `(1, T, d_model)`, was left on the result of tokens that have none.

    A sum has all dimensions of both. Tokens of shape `(T, d_model)` come back as `(1, T, d_model)` then.

    Does the table need its first dimension for the sum?
    """

    def table(self, x: Tensor) -> Tensor:
        return super().table(x)[None]


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class counted_through_the_batch(Pieces):
    """The positions were counted on from one sequence of the batch to the next.

    Each sequence starts at position 0 by itself.

    How long is the range of positions that your code makes?
    """

    def table(self, x: Tensor) -> Tensor:
        count = x.shape[:-1].numel()
        return self.encoding(count, self.d_model, device=x.device).to(x.dtype).view(x.shape)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class multiplied_in_place_of_added(Pieces):
    """The tokens were multiplied by the encoding.

    Where a sine is 0 nothing of the token is left. The encoding is added.

    Which operator stands between the token and its encoding?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x * table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class concatenated_in_place_of_added(Pieces):
    """The encoding was put beside the tokens, which made them twice as wide.

    The width stays what it is: the encoding is added to the token.

    Why does the encoding have just the width of a token?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return torch.cat([x, table.expand_as(x)], dim=-1)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class tokens_scaled(Pieces):
    """The tokens were multiplied by the root of d_model before the encoding was added.

    In the paper that belongs to the embedding of the tokens, which comes before. This module adds, and does nothing
    else.

    Which line changes x before the sum?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x * math.sqrt(self.d_model) + table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class encoding_scaled(Pieces):
    """The encoding was divided by the root of d_model before it was added.

    This module adds the sines and cosines as they are.

    By what is the table multiplied or divided on its way into the sum?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x + table / math.sqrt(self.d_model)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class encoding_subtracted(Pieces):
    """The encoding was subtracted from the tokens.

    It is to be added.

    Which sign stands before the encoding?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x - table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class tokens_left_out(Pieces):
    """The encoding alone was returned, without the tokens.

    What comes next has to see the token and its position in one vector.

    Where does `x` itself enter what you return?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return table.expand_as(x)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class tokens_unchanged(Pieces):
    """The tokens came back as they were: nothing was added.

    `x + table` makes a new tensor, which has to be kept and returned.

    What does your `forward` return, and has the encoding gone into it?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x * 1


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class result_detached(Pieces):
    """The sum was cut off from the graph, by `detach`, `.data` or `torch.no_grad`.

    The table needs no gradient, but the tokens do: their embedding is learned.

    Around which lines does `no_grad` stand, or on which tensor is `detach` called?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x.detach() + table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class x_changed_in_place(Pieces):
    """The encoding was added to x in place.

    The caller's tokens have changed then, behind the caller's back: called twice, they have two encodings.

    What does `x += …` do that `x = x + …` does not?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        x += table
        return x


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class dropout_on_the_sum(Pieces):
    """Dropout acted on the sum in training.

    The paper's model has a dropout there. This module adds, and does nothing else; who wants dropout puts it behind.

    Which line differs between training and evaluation?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return F.dropout(x + table, 0.1, self.training)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class norm_of_the_sum(Pieces):
    """The sum went through a layer norm.

    BERT has a norm there. This module adds, and does nothing else; the model's first norm stands outside of it.

    What does your `forward` do with the sum before it returns it?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return F.layer_norm(x + table, x.shape[-1:])


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class learned_table(Pieces):
    """The table was an `nn.Parameter`.

    Parameters are learned, or at least saved and counted as such. The sinusoidal encoding is fixed: it has none.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        self.pe = nn.Parameter(reference.sinusoidal_encoding(max_len, d_model))

    def table(self, x: Tensor) -> Tensor:
        return self.pe[: x.shape[-2]].to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class learned_embedding(Pieces):
    """The positions had an `nn.Embedding`, whose vectors are learned.

    GPT-2 and BERT do so. The sinusoidal encoding has nothing to learn: it is computed.

    Where in your module are sine and cosine?
    """

    called = "position_embedding"

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        self.add_module(self.called, nn.Embedding(max_len, d_model))

    def table(self, x: Tensor) -> Tensor:
        return self.get_submodule(self.called)(torch.arange(x.shape[-2], device=x.device))


@another_form(learned_embedding)
class learned_embedding_called_pe(learned_embedding):
    called = "pe"


@another_form(learned_embedding)
class learned_embedding_called_embedding(learned_embedding):
    called = "embedding"


@another_form(learned_embedding)
class learned_embedding_called_pos_embedding(learned_embedding):
    called = "pos_embedding"


@misconception(replaces="PositionalEncoding", caught_by="test_follows_device")
class table_kept_as_a_plain_tensor(Pieces):
    """The table was a plain attribute, which stayed on the CPU when the module moved.

    `module.to(device)` moves parameters and buffers, and nothing else.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        self.rows = reference.sinusoidal_encoding(max_len, d_model)

    def table(self, x: Tensor) -> Tensor:
        return self.rows[: x.shape[-2]].to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_other_dtypes")
class half_promoted_to_float32(Pieces):
    """The table stayed float32 in the sum, and made a float32 result of tokens in half precision.

    torch widens a sum to the wider dtype of the two. The result is to have the dtype of x, also where the module was
    not moved to it.

    What can be done to the rows of the table before they are added?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(x.shape[-2], self.d_model, device=x.device)


@misconception(replaces="PositionalEncoding", caught_by="test_other_dtypes")
class positions_counted_in_half(Pieces):
    """The angles were made in the dtype of x.

    bfloat16 has three digits: positions above 256 share one number, and their waves are off by whole turns. Only the
    finished sines and cosines may be rounded.

    In which dtype are position and frequency multiplied in your code?
    """

    def table(self, x: Tensor) -> Tensor:
        position = torch.arange(x.shape[-2], device=x.device).to(x.dtype)[:, None]
        frequency = (10000.0 ** (-even_columns(self.d_model, x.device) / self.d_model)).to(x.dtype)
        return woven(position * frequency, self.d_model).to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_other_dtypes")
class frequencies_rounded_with_the_module(Pieces):
    """The frequencies were kept in a buffer, which `.to(bfloat16)` rounded, and the angles with it.

    A frequency that is off by 1 / 500 turns position 600 by more than a radian. Only the finished sines and cosines may
    be rounded.

    Which of your buffers are still multiplied by the position after they were rounded?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        frequency = 10000.0 ** (-even_columns(d_model, None) / d_model)
        self.register_buffer("frequency", frequency.float(), persistent=False)

    def table(self, x: Tensor) -> Tensor:
        position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None]
        return woven(position * self.frequency, self.d_model).to(x.dtype)


@another_form(frequencies_rounded_with_the_module)
class whole_positions_times_rounded_frequencies(frequencies_rounded_with_the_module):
    def table(self, x: Tensor) -> Tensor:
        # A whole number does not widen: the angle has the dtype of the frequencies.
        return woven(torch.arange(x.shape[-2], device=x.device)[:, None] * self.frequency, self.d_model).to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class any_length_accepted(Pieces):
    """More than max_len tokens were accepted and answered.

    The module promises a longest length. An encoding that is made on the fly knows none, so nothing complains.

    Where could `forward` compare T with what the constructor was given?
    """

    def check_length(self, x: Tensor) -> None:
        pass


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class longer_sequences_cut(Pieces):
    """A sequence longer than max_len was cut without a word.

    Tokens that are missing at the end are an error nobody sees. The caller should be told.

    What does your code do with the tokens from max_len on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[..., : self.max_len, :])


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class longest_length_refused(Pieces):
    """A sequence of exactly max_len tokens was refused.

    max_len is the most tokens a sequence may have, so that many are still allowed.

    Is it `>` or `>=` that your condition needs?
    """

    def check_length(self, x: Tensor) -> None:
        if x.shape[-2] >= self.max_len:
            raise ValueError(f"x has {x.shape[-2]} tokens, but max_len is {self.max_len}")


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class batch_taken_for_the_length(Pieces):
    """The number that was compared with max_len was that of the batch.

    Then a large batch of short sequences is refused, and T is not looked at.

    Which entry of `x.shape` is T?
    """

    def check_length(self, x: Tensor) -> None:
        if len(x) > self.max_len:
            raise ValueError(f"x has {len(x)} tokens, but max_len is {self.max_len}")


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class shorter_by_default(Pieces):
    """The most tokens were fewer than 5000 where the caller does not give a number.

    The contract's default is `max_len=5000`.

    Which number stands in the signature of the stub?
    """

    def __init__(self, d_model: int, max_len: int = 512) -> None:
        super().__init__(d_model, max_len)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class whole_table_added(Pieces):
    """The table of max_len rows was added as it is, whatever the length of x.

    It has max_len rows, and x only T.

    How do you take the first T rows of the table?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class table_of_the_first_call(Pieces):
    """The table was made at the first call and kept, with the length of that call.

    A longer sequence later finds too few rows, and another length none that fits.

    For how many positions is the table made, and when?
    """

    def table(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = super().table(x)
        return self.kept.to(x.device, x.dtype)


@another_form(table_of_the_first_call)
class table_of_the_first_call_and_its_device(table_of_the_first_call):
    def table(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = Pieces.table(self, x)
        return self.kept.to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class last_rows_of_the_table(Pieces):
    """The last T rows of the table were added in place of the first T.

    The first token stands at position 0.

    Which rows does your slice take: those up to T, or those from -T on?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)[-x.shape[-2] :]


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class row_of_the_length(Pieces):
    """One row of the table, that of the number T or T - 1, was added to all tokens.

    Each token has a position of its own, and with it a row.

    What is the difference between `table[T]` and `table[:T]`?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(x.shape[-2] + 1, self.d_model, device=x.device).to(x.dtype)[-1]


@another_form(row_of_the_length)
class row_of_the_last_token(Pieces):
    def table(self, x: Tensor) -> Tensor:
        return super().table(x)[-1]
