"""What learners get wrong in `flash_attention`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step10_flash.misconceptions.blocks import Flash, Sums, blocks, by_blocks, hide_future


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class context_not_rescaled(Flash):
    """When a later block raised the maximum, the denominator was rescaled, but the context added up so far was not.

    The context then adds numbers in two different units: the old values count too much against the new ones.

    Which of the running numbers were made with exp(scores - old maximum), and what must happen to each of them?
    """

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones_like(new), torch.exp(old - new)


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class denominator_not_rescaled(Flash):
    """When a later block raised the maximum, the context was rescaled, but the denominator added up so far was not.

    The denominator is then too large, and the weights that it stands for no longer sum to 1.

    The denominator is a sum of exp(scores - maximum) too. What happens to it when the maximum changes?
    """

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return torch.exp(old - new), torch.where(old == -torch.inf, 0.0, 1.0).to(new.dtype)


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class each_block_its_own_maximum(Flash):
    """Each block subtracted its own maximum, and the blocks were then added up as they were.

    A block with small scores counts as much as one with large scores, because each one's largest score became 0.

    How can two blocks be added that were made with two different maxima? What factor lies between their units?
    """

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return scores.amax(dim=-1, keepdim=True)

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones_like(new), torch.ones_like(new)


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class last_block_dropped(Flash):
    """Only the full blocks of keys were read: the keys left over at the end were never looked at.

    With 7 keys and blocks of 3 the loop ended after 6 keys, and the seventh got no weight.

    How many blocks are there when the number of keys is no multiple of block_size, and where does the last one end?
    """

    def key_blocks(self) -> list[slice]:
        every = super().key_blocks()
        return [block for block in every if block.stop - block.start == self.block_size] or every


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class divided_in_every_block(Flash):
    """The context was divided by the denominator after every block.

    The next block rescales and adds to it as if it had not been divided, so the first blocks count too little.

    When is the denominator complete, and how many times does a softmax divide by it?
    """

    def wide(self) -> torch.dtype:
        return self.query.dtype

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = super().added(sums, scores, value)
        return maximum, denominator, context / denominator

    def divided(self, context: Tensor, denominator: Tensor) -> Tensor:
        return context


@another_form(divided_in_every_block)
class each_block_divided_alone(Flash):
    """Only what the block adds is divided, by the denominator so far."""

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = sums
        new_maximum, new_denominator, with_block = super().added(sums, scores, value)
        before = context * self.rescale(maximum, new_maximum)[0]
        return new_maximum, new_denominator, before + (with_block - before) / new_denominator

    def divided(self, context: Tensor, denominator: Tensor) -> Tensor:
        return context


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class rescaled_the_wrong_way(Flash):
    """When a later block raised the maximum, what was added up so far was multiplied by exp(new - old).

    That makes the old sums larger, and they have to become smaller: measured by a larger maximum, each of their
    exponentials is worth less.

    exp(score - old) is there and exp(score - new) is wanted. By what do you multiply the one to get the other?
    """

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.exp(new - torch.where(old == -torch.inf, new, old))  # 1 where there is nothing to rescale yet
        return factor, factor


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class never_divided(Flash):
    """The weighted values were added up, and the sum was never divided by the denominator.

    The exponentials are no weights yet: in each row they have to sum to 1.

    What does a softmax do after the exponentials, and where does your code do it?
    """

    def divided(self, context: Tensor, denominator: Tensor) -> Tensor:
        return context


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand")
class blocks_averaged(Flash):
    """Each block of keys was given a softmax of its own, and the contexts of the blocks were averaged.

    All blocks then count alike, however large their scores are. In one softmax a block counts as much as its
    exponentials are of the whole denominator.

    How large is the share of a block whose scores are all far below those of another block?
    """

    def of_rows(self, rows: slice) -> Tensor:
        parts = []
        for columns in blocks(rows.stop if self.is_causal else self.key.shape[-2], self.block_size):
            scores = self.query[..., rows, :] @ self.key[..., columns, :].transpose(-2, -1) * self.scale()
            scores = self.hidden(scores, rows, columns) if self.is_causal else scores
            parts.append(torch.softmax(scores, dim=-1) @ self.value[..., columns, :])
        return self.averaged(parts)

    def averaged(self, parts: list[Tensor]) -> Tensor:
        return torch.stack(parts).mean(dim=0)


@another_form(blocks_averaged)
class each_block_averaged_with_those_before(blocks_averaged):
    def averaged(self, parts: list[Tensor]) -> Tensor:
        context, *later = parts
        for part in later:
            context = (context + part) / 2
        return context


@misconception(replaces=by_blocks, caught_by="test_large_scores", misses_the_point=True)
class no_maximum(Flash):
    """The exponentials were added up without subtracting a maximum.

    For small scores that is the same softmax, but exp(1000) is infinite, and inf / inf is not a number.

    What can be subtracted from all the scores of a row without changing its softmax?
    """

    start = 0.0

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return maximum


@misconception(replaces=by_blocks, caught_by="test_large_scores")
class maximum_starts_at_zero(Flash):
    """The running maximum did not start low enough, but at 0, say.

    When all the scores of a row are far below it, it stays what it is, every exponential is 0, and 0 is divided by 0.

    Which number is below every score there can be?
    """

    start = 0.0


@misconception(replaces=by_blocks, caught_by="test_large_scores")
class first_block_maximum_kept(Flash):
    """The maximum of the first block of keys was subtracted in all the blocks.

    Where a later block holds a score that is larger by 100 or more, its exponential is infinite in float32.

    What must happen to the maximum when a later block holds a larger score, and to what was added up with the old one?
    """

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.where(maximum == -torch.inf, scores.amax(dim=-1, keepdim=True), maximum)


@misconception(replaces=by_blocks, caught_by="test_large_scores")
class hidden_scores_in_the_maximum(Flash):
    """The maximum of a block was taken before the future was hidden.

    Where a hidden score is larger by 1000 than all visible ones, every exponential is 0, and 0 is divided by 0.

    Which scores of a row take part in its softmax, and when do you know which they are?
    """

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        self.highest = scores.amax(dim=-1, keepdim=True)
        return super().hidden(scores, rows, columns)

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(maximum, self.highest) if self.is_causal else super().grown(maximum, scores)


@misconception(replaces=by_blocks, caught_by="test_large_scores")
class one_maximum_for_a_whole_block(Flash):
    """One maximum was taken over all the queries of a block together.

    A query whose scores all lie far below those of its neighbours gets only zeros, and 0 is divided by 0.

    A softmax belongs to one query. Over which dimension is its maximum taken?
    """

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(maximum, scores.amax(dim=(-2, -1), keepdim=True))


@misconception(replaces=by_blocks, caught_by="test_gradients")
class rescale_without_gradient(Flash):
    """The factor that rescales the earlier blocks was detached from the gradient, but the maximum was not.

    The maximum has no effect on the result only because it stands in every factor. Detached in one and not in the
    others, it sends a wrong gradient to query and key.

    Where else does the maximum stand? Which of those places may the gradient pass through, so that all agree?
    """

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.exp(old - new).detach()
        return factor, factor


@misconception(replaces=by_blocks, caught_by="test_gradients")
class query_without_gradient(Flash):
    """The query was detached from the gradient before the scores were made.

    The context is right, but the query never learns, because its gradient is missing or zero.

    Which of the three inputs must still have a gradient at the end?
    """

    def context(self) -> Tensor:
        self.query = self.query.detach() + 0.0 * self.query
        return super().context()


@misconception(replaces=by_blocks, caught_by="test_gradients")
class weights_without_gradient(Flash):
    """The exponentials were detached from the gradient, or made under `torch.no_grad`.

    The context is right, but query and key never learn: only the values have their gradient.

    Through which step does the gradient get from the context to the scores?
    """

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = sums
        new_maximum = self.grown(maximum, scores)
        factor = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum).detach()
        denominator = denominator * factor + weights.sum(dim=-1, keepdim=True)
        return new_maximum, denominator, context * factor + weights @ value


@another_form(weights_without_gradient)
class scores_without_gradient(Flash):
    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        return super().added(sums, scores.detach(), value)


class _WeightsMadeAgain(torch.autograd.Function):
    """The forward pass keeps the logarithms of the denominators; the backward pass makes the weights from them."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, block_size: int) -> Tensor:
        wide = torch.promote_types(query.dtype, torch.float32)
        context = Flash(query, key, value, is_causal, block_size).context()
        logs = []
        for rows in blocks(query.shape[-2], block_size):
            scores = query[..., rows, :].to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
            scores = hide_future(scores, rows, slice(0, key.shape[-2])) if is_causal else scores
            logs.append(scores.logsumexp(dim=-1, keepdim=True))
        ctx.save_for_backward(query, key, value, context, torch.cat(logs, dim=-2))
        ctx.is_causal = is_causal
        return context

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, context, logs = ctx.saved_tensors
        scale = query.shape[-1] ** -0.5
        scores = query @ key.transpose(-2, -1) * scale
        if ctx.is_causal:
            scores = hide_future(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
        weights = torch.exp(scores - logs)  # in float32 where the inputs are halves: what is wrong with it
        d_value = weights.transpose(-2, -1) @ gradients[0]
        d_weights = gradients[0] @ value.transpose(-2, -1)
        d_scores = weights * (d_weights - (gradients[0] * context).sum(dim=-1, keepdim=True)) * scale
        return d_scores @ key, d_scores.transpose(-2, -1) @ query, d_value, None, None


@misconception(replaces=by_blocks, caught_by="test_gradients")
class backward_in_two_dtypes(Flash):
    """The backward pass, written by hand, multiplied float32 tensors by tensors in half precision.

    What the forward pass kept in float32 makes all that is computed from it float32 as well, and torch multiplies no
    two matrices of different dtypes. In float32 alone nobody notices.

    Which dtypes do the saved tensors have when the query is in bfloat16, and which should the gradients have?
    """

    def context(self) -> Tensor:
        self.check()
        return _WeightsMadeAgain.apply(self.query, self.key, self.value, self.is_causal, self.block_size)


@misconception(replaces=by_blocks, caught_by="test_any_lengths")
class not_scaled(Flash):
    """The scores were not divided by the square root of d.

    The softmax is then sharper than the one of attention, the more so the wider a head is.

    What stood between the dot products and the softmax in step 1?
    """

    def scale(self) -> float:
        return 1.0


@misconception(replaces=by_blocks, caught_by="test_any_lengths")
class scaled_by_width_of_value(Flash):
    """The scores were divided by the square root of the width of the values.

    The scores are sums over the width of queries and keys. The values may have another width.

    Over how many products does one dot product of a query and a key sum?
    """

    def scale(self) -> float:
        return self.value.shape[-1] ** -0.5


@misconception(replaces=by_blocks, caught_by="test_any_lengths")
class keys_counted_by_queries(Flash):
    """The loop over the blocks of keys ended at the number of queries.

    When there are more keys than queries, the last keys are never looked at.

    Which tensor's length says how many blocks of keys there are?
    """

    def context(self) -> Tensor:
        self.check()
        seen = slice(0, min(self.query.shape[-2], self.key.shape[-2]))
        self.key, self.value = self.key[..., seen, :], self.value[..., seen, :]
        return super().context()


@misconception(replaces=by_blocks, caught_by="test_any_lengths")
class added_up_in_float32(Flash):
    """Everything was computed in float32, whatever dtype came in.

    For float64 inputs that throws away half of the digits.

    Which dtype should the running sums have when the inputs are float64?
    """

    def wide(self) -> torch.dtype:
        return torch.float32


@misconception(replaces=by_blocks, caught_by="test_large_scores")
class a_thousand_filled_in(Flash):
    """The future scores were filled with -1000, which is not low enough.

    Where the visible scores of a row are near -1000 as well, the future gets as much weight as they do.

    Which number stays far below every score that can come up?
    """

    fill = -1000.0


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand", misses_the_point=True)
class nothing_rescaled(Flash):
    """When a later block raised the maximum, nothing that was added up so far was rescaled.

    Context and denominator then add exponentials in two different units: those made with the old maximum count too
    much against the new ones.

    exp(score - old) is there and exp(score - new) is wanted. By what do you multiply the one to get the other?
    """

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones_like(new), torch.ones_like(new)


@misconception(replaces=by_blocks, caught_by="test_large_scores")
class maximum_of_the_latest_block(Flash):
    """The maximum of the latest block took the place of the running one, also where it was smaller.

    On paper any number may be subtracted. But what was added up so far is then multiplied by exp(old - new), and that
    overflows when a block with small scores follows one with large scores.

    May the running maximum ever become smaller? Which function of torch takes the larger of two tensors?
    """

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return scores.amax(dim=-1, keepdim=True)


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand", misses_the_point=True)
class new_maximum_never_kept(Flash):
    """The new maximum was computed in each block and never kept, so that the old one stayed at minus infinity.

    What was added up so far is then multiplied by exp(-inf), which is 0: only the last block of keys counts.

    Which line makes the new maximum the old one before the next block comes?
    """

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        return scores.amax(dim=-1, keepdim=True)

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(new), torch.zeros_like(new)


@another_form(rescaled_the_wrong_way)
class rescaled_the_wrong_way_from_minus_infinity(Flash):
    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.exp(new - old)
        return factor, factor


@another_form(divided_in_every_block)
class divided_in_every_block_and_at_the_end(Flash):
    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = super().added(sums, scores, value)
        return maximum, denominator, context / denominator


@misconception(replaces=by_blocks, caught_by="test_two_blocks_by_hand", misses_the_point=True)
class new_block_rescaled(Flash):
    """The block at hand was multiplied by exp(old maximum - new maximum).

    Its exponentials were made with the new maximum already. Only what was added up with the old one is in another unit.

    Which of the running numbers were made with exp(scores - old maximum), and which with the new one?
    """

    scaled = (False, True), (True, False)  # of context and denominator: the sums so far, and the block at hand

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = sums
        new_maximum = self.grown(maximum, scores)
        factor = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        (so_far, here), (sum_so_far, sum_here) = (
            [factor if applies else torch.ones_like(factor) for applies in both] for both in self.scaled
        )
        denominator = denominator * sum_so_far + weights.sum(dim=-1, keepdim=True) * sum_here
        return new_maximum, denominator, context * so_far + weights @ value * here


@another_form(new_block_rescaled)
class new_block_rescaled_in_the_denominator(new_block_rescaled):
    scaled = (True, False), (False, True)


@another_form(new_block_rescaled)
class new_block_rescaled_instead(new_block_rescaled):
    scaled = (False, True), (False, True)


@another_form(new_block_rescaled)
class new_block_rescaled_too(new_block_rescaled):
    scaled = (True, True), (True, True)


@another_form(new_block_rescaled)
class new_block_rescaled_too_in_the_denominator(new_block_rescaled):
    scaled = (True, False), (True, True)


@another_form(new_block_rescaled)
class new_block_rescaled_too_in_the_context(new_block_rescaled):
    scaled = (True, True), (True, False)


@misconception(replaces=by_blocks, caught_by="test_gradients")
class sums_without_gradient(Flash):
    """The context that is added up was detached from the gradient.

    The result is right, but the values never learn, and query and key get a wrong gradient or none.

    Through which steps does the gradient get from the context that is returned to the values?
    """

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = super().added(sums, scores, value)
        return maximum, denominator, context.detach()


@misconception(replaces=by_blocks, caught_by="test_any_lengths")
class queries_counted_by_keys(Flash):
    """The loop over the blocks of queries ended at the number of keys.

    When there are more queries than keys, the last queries get no context, and the result is too short.

    Which tensor's length says how many blocks of queries there are?
    """

    def context(self) -> Tensor:
        self.check()
        contexts = [self.of_rows(rows) for rows in self.query_blocks()]
        return torch.cat(contexts, dim=-2).to(self.query.dtype)

    def query_blocks(self) -> list[slice]:
        ends = range(0, self.key.shape[-2], self.block_size)
        every = [slice(first, min(first + self.block_size, self.query.shape[-2])) for first in ends]
        return [rows for rows in every if rows.start < rows.stop]


@another_form(queries_counted_by_keys)
class query_blocks_cut_at_the_keys(queries_counted_by_keys):
    def query_blocks(self) -> list[slice]:
        return blocks(min(self.query.shape[-2], self.key.shape[-2]), self.block_size)
