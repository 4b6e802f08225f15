"""What learners get wrong in `flash_attention`: memory and dtypes."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step10_flash import reference
from solutions.core.step10_flash.misconceptions.blocks import Flash, blocks, by_blocks


@misconception(replaces=by_blocks, caught_by="test_memory", misses_the_point=True)
class whole_rows_for_a_block_of_queries(Flash):
    """Only the queries were cut into blocks: each block met all keys, and a softmax took its whole rows.

    A block of whole rows still grows with the number of keys. The softmax has to be built up while keys arrive in
    blocks, too.

    With one block of queries and a million keys, how large are your scores?
    """

    def of_rows(self, rows: slice) -> Tensor:
        wide = self.wide()
        scores = self.query[..., rows, :].to(wide) @ self.key.to(wide).transpose(-2, -1) * self.scale()
        if self.is_causal:
            scores = self.hidden(scores, rows, slice(0, self.key.shape[-2]))
        return torch.softmax(scores, dim=-1) @ self.value.to(wide)


@misconception(replaces=by_blocks, caught_by="test_memory", misses_the_point=True)
class whole_matrix_made(whole_rows_for_a_block_of_queries):
    """A tensor of the shape of all the scores was made: blocks were cut out of it, or it masked them.

    The result is right, but the T_q x T_k matrix that flash attention does without has been made after all.

    Which part of query and of key does one block of scores need?
    """

    def context(self) -> Tensor:
        self.check()
        return self.of_rows(slice(0, self.query.shape[-2])).to(self.query.dtype)


@misconception(replaces=by_blocks, caught_by="test_memory")
class whole_mask_made(Flash):
    """With is_causal a tensor for all pairs of positions was made, a mask for instance; without it there was none.

    A mask of T x T booleans grows with the square of the length just as the scores do.

    Which positions does one block need, and how can its mask be made from those alone?
    """

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        whole = torch.ones(self.query.shape[-2], self.key.shape[-2], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(whole[rows, columns], self.fill)


@misconception(replaces=by_blocks, caught_by="test_memory")
class block_size_ignored(Flash):
    """The blocks had a size of their own, whatever block_size said.

    Someone who asks for smaller blocks, because memory is short, gets the large ones.

    Where does the number of rows and columns of a block come from?
    """

    def context(self) -> Tensor:
        self.block_size = 64
        return super().context()


@misconception(replaces=by_blocks, caught_by="test_halves_meta_and_inputs")
class halves_come_back_in_float32(Flash):
    """The sums were kept in float32, and the context was returned in float32 as well.

    Adding up in float32 is good for half precision, but the next layer expects the dtype that came in.

    Which dtype did the query have?
    """

    def context(self) -> Tensor:
        context = super().context()
        return context.to(torch.promote_types(context.dtype, torch.float32))


@another_form(halves_come_back_in_float32)
class halves_never_converted_back(Flash):
    def context(self) -> Tensor:
        self.check()
        return torch.cat([self.of_rows(rows) for rows in blocks(self.query.shape[-2], self.block_size)], dim=-2)


@misconception(replaces=by_blocks, caught_by="test_halves_meta_and_inputs")
class mask_made_on_the_cpu(Flash):
    """The positions for the causal mask were made on the CPU, wherever the query was.

    On any other device the scores and the mask cannot meet.

    What does torch.arange need to be told, so that its result lies where the query lies?
    """

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores.masked_fill(reference.future(rows, columns, torch.device("cpu")), self.fill)


@misconception(replaces=by_blocks, caught_by="test_halves_meta_and_inputs")
class query_scaled_in_place(Flash):
    """The query was scaled in place, so the caller's tensor changed.

    Whoever uses the same query again gets another answer the second time.

    What is the difference between query *= scale and query = query * scale?
    """

    def scale(self) -> float:
        return 1.0

    def context(self) -> Tensor:
        self.query.mul_(self.query.shape[-1] ** -0.5)
        return super().context()


@misconception(replaces=by_blocks, caught_by="test_halves_meta_and_inputs")
class fill_too_large_for_half(Flash):
    """Hidden scores were filled with -1e9 while the scores were in float16.

    The largest number of float16 is 65504, so torch refuses to store -1e9 in it.

    Which number is below every score in every dtype?
    """

    fill = -1e9

    def wide(self) -> torch.dtype:
        return self.query.dtype


@misconception(replaces=by_blocks, caught_by="test_memory")
class large_default_block(Flash):
    """The default of block_size was not 64, but larger.

    Whoever does not name a size then gets the whole matrix, unless the sequence is very long.

    Where in the line of `def` does the default stand?
    """

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 1024
    ) -> None:
        super().__init__(query, key, value, is_causal, block_size)


@misconception(replaces=by_blocks, caught_by="test_memory")
class half_the_length_as_block(Flash):
    """The sequence was cut in two halves, whatever block_size said.

    A block is then a quarter of the matrix of scores, and it grows with the square of the length as the matrix does.

    When the sequence gets twice as long, what happens to the size of a block?
    """

    def context(self) -> Tensor:
        self.block_size = max(self.block_size, self.query.shape[-2] // 2)
        return super().context()
