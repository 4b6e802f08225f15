"""What learners get wrong in step 7, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step07_heads import reference


def _sizes(x: Tensor, num_heads: int) -> tuple[int, int, int]:
    """Batch, tokens and the width of one head. Refuses a width that the heads cannot share."""
    batch, num_tokens, width = x.shape
    if width % num_heads:
        raise ValueError(f"the width {width} is not divisible by {num_heads} heads")
    return batch, num_tokens, width // num_heads


# --- splitting --------------------------------------------------------------------------------------------------------


@misconception(replaces="split_heads", caught_by="test_split_by_hand", misses_the_point=True)
def reshaped_without_transpose(x: Tensor, num_heads: int) -> Tensor:
    """x was reshaped to (B, H, T, d) directly, without a transpose.

    The shape is right, but a reshape only counts through the numbers in their order. The first head gets the first
    tokens whole, cut into pieces, and not the first columns of all tokens.

    Into which shape can you cut the columns without moving a number, and which two dimensions change places then?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_heads, num_tokens, d)


@misconception(replaces="split_heads", caught_by="test_split_any_shape")
def heads_left_behind_tokens(x: Tensor, num_heads: int) -> Tensor:
    """The columns were cut into heads, but the heads still stand behind the tokens: (B, T, H, d).

    A matrix product works on the last two dimensions. Here these would be H and d, so the heads would attend to each
    other instead of the tokens.

    Which two dimensions have to change places?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, num_heads, d)


@misconception(replaces="split_heads", caught_by="test_split_by_hand", misses_the_point=True)
def columns_interleaved(x: Tensor, num_heads: int) -> Tensor:
    """The columns were dealt out to the heads in turn, like cards.

    Head 0 then holds the columns 0, H, 2H and so on. It should hold the first d columns, which lie side by side.

    When a width D is cut into two dimensions, which of the two comes first: H or d?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, d, num_heads).permute(0, 3, 1, 2)


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def heads_before_batch(x: Tensor, num_heads: int) -> Tensor:
    """The heads stand before the batch: (H, B, T, d).

    That order works if the whole model keeps to it. This step asks for the batch first, and the heads after it.

    Which dimensions may change places, and which one stays in front?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, num_heads, d).permute(2, 0, 1, 3)


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def heads_folded_into_batch(x: Tensor, num_heads: int) -> Tensor:
    """The heads were folded into the batch: (B * H, T, d).

    The numbers are in the right order, but the head has no dimension of its own.

    Which of the four dimensions should you leave apart?
    """
    return reference.split_heads(x, num_heads).flatten(0, 1)


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def width_before_tokens(x: Tensor, num_heads: int) -> Tensor:
    """The width of a head stands before the tokens: (B, H, d, T).

    That is the shape of a transposed key, which only the product of queries and keys needs.

    In which order should the last two dimensions stand?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, num_heads, d).permute(0, 2, 3, 1)


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def tokens_split_instead(x: Tensor, num_heads: int) -> Tensor:
    """The tokens were shared out among the heads, and each head kept the whole width.

    Every head has to see every token. What the heads share out is the width.

    Which dimension of x becomes H times d?
    """
    batch, _num_tokens, _d = _sizes(x, num_heads)
    return x.reshape(batch, num_heads, -1, x.shape[-1])


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def whole_width_for_each_head(x: Tensor, num_heads: int) -> Tensor:
    """Every head got all the columns.

    Then the heads hold the same, and together they are H times as large as x.

    How many of the D columns belong to one of H heads?
    """
    _sizes(x, num_heads)
    return x.unsqueeze(1).repeat(1, num_heads, 1, 1)


@misconception(replaces="split_heads", caught_by="test_split_any_shape")
def heads_taken_for_width(x: Tensor, num_heads: int) -> Tensor:
    """The number of heads and the width of a head changed places.

    With two heads of width 2 this cannot be seen. With three heads of width 2 it gives two heads of width 3.

    In (B, T, H, d), which of the last two numbers is the argument `num_heads`?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, d, num_heads).transpose(1, 2)


@misconception(replaces="split_heads", caught_by="test_split_any_shape")
def first_entry_for_all(x: Tensor, num_heads: int) -> Tensor:
    """The first batch entry was split and used for the whole batch.

    Every batch entry is a text of its own.

    How can the batch dimension pass through the reshape untouched?
    """
    return reference.split_heads(x[:1], num_heads).expand(x.shape[0], -1, -1, -1)


@misconception(replaces="split_heads", caught_by="test_indivisible_width_is_an_error")
def columns_left_over(x: Tensor, num_heads: int) -> Tensor:
    """The width was divided by the number of heads and rounded down, and the columns left over were lost.

    Nobody is told that a part of every token is gone.

    What should happen when D divided by H leaves a remainder?
    """
    d = x.shape[-1] // num_heads
    return torch.stack([x[..., head * d : (head + 1) * d] for head in range(num_heads)], dim=1)


@misconception(replaces="split_heads", caught_by="test_indivisible_width_is_an_error")
def fewer_heads_than_asked(x: Tensor, num_heads: int) -> Tensor:
    """`chunk` cut the columns, and it gave fewer heads than were asked for.

    `chunk` rounds the size of a piece up. Six columns for four heads make three pieces of two.

    Which question about D and H has to be asked before anything is cut?
    """
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@misconception(replaces="split_heads", caught_by="test_indivisible_width_is_an_error")
def filled_up_with_zeros(x: Tensor, num_heads: int) -> Tensor:
    """Columns of zeros were added until the heads could share the width.

    The step asks for an error. With zeros added, merging gives a wider tensor than the one that was split.

    What does the step say about a width that is not divisible by the number of heads?
    """
    missing = -x.shape[-1] % num_heads
    return reference.split_heads(torch.nn.functional.pad(x, (0, missing)), num_heads)


@misconception(replaces="split_heads", caught_by="test_gradients")
def split_without_gradient(x: Tensor, num_heads: int) -> Tensor:
    """The heads were cut off from the gradient.

    The numbers are right, but nothing before the split can learn any more.

    Was something detached, or copied out of torch and back?
    """
    return reference.split_heads(x.detach(), num_heads)


@misconception(replaces="split_heads", caught_by="test_dtype_and_device_kept")
def split_into_float32(x: Tensor, num_heads: int) -> Tensor:
    """The heads came out in float32, which is the dtype of a new tensor, whatever the dtype of x was.

    Splitting only rearranges: the dtype of x has to stay, or the next layer meets one that it does not expect.

    Does your code make a new tensor, or convert x? What does a new tensor have to take over from x?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    heads = torch.zeros(batch, num_heads, num_tokens, d, device=x.device)
    for head in range(num_heads):
        heads[:, head] = x[..., head * d : (head + 1) * d]
    return heads


@misconception(replaces="split_heads", caught_by="test_dtype_and_device_kept")
def split_on_cpu(x: Tensor, num_heads: int) -> Tensor:
    """The heads came out on the CPU, where a new tensor is made, wherever x was.

    When x is on a GPU, the result is not where the rest of the model is.

    How does a new tensor learn on which device it has to be?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    heads = torch.zeros(batch, num_heads, num_tokens, d, dtype=x.dtype)
    for head in range(num_heads):
        heads[:, head] = x[..., head * d : (head + 1) * d]
    return heads


# --- merging ----------------------------------------------------------------------------------------------------------


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand", misses_the_point=True)
def merged_without_transpose(x: Tensor) -> Tensor:
    """x was reshaped to (B, T, H * d) directly, without a transpose.

    The shape is right, but the numbers of one head stay together. A row of the result then mixes tokens of one head,
    where it should hold all heads of one token.

    Which two dimensions have to change places before H and d can be joined?
    """
    batch, num_heads, num_tokens, d = x.shape
    return x.reshape(batch, num_tokens, num_heads * d)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def merged_columns_interleaved(x: Tensor) -> Tensor:
    """The columns of the heads were shuffled together: one of each head, then the next of each head.

    Each token has all its numbers, but head 0 has to come first with all its d columns, then head 1.

    In which order must H and d stand, side by side, when they are joined?
    """
    return x.permute(0, 2, 3, 1).flatten(2)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def view_after_transpose(x: Tensor) -> Tensor:
    """`view` was called on a transposed tensor.

    A transpose only changes how the numbers are read, not how they lie in memory. `view` cannot join two dimensions
    that do not lie one after the other, and it stops with an error.

    Which relative of `view` copies the numbers when it has to?
    """
    batch, num_heads, num_tokens, d = x.shape
    return x.transpose(1, 2).view(batch, num_tokens, num_heads * d)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def heads_put_in_a_row(x: Tensor) -> Tensor:
    """The heads were placed one after the other along the tokens: (B, H * T, d).

    Each token has to get its own columns back, so the heads belong side by side.

    Along which dimension do the heads of one token lie next to each other?
    """
    return x.flatten(1, 2)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def heads_added(x: Tensor) -> Tensor:
    """The heads were added up.

    The result has the width of one head, and nobody can tell any more what each head has found.

    How wide is a token when the columns of all heads stand side by side?
    """
    return x.sum(dim=1)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def heads_averaged(x: Tensor) -> Tensor:
    """The mean of the heads was taken.

    Merging loses nothing: splitting the result has to give the heads back. From a mean they cannot be had back.

    How many numbers go into the merge, and how many have to come out?
    """
    return x.mean(dim=1)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def heads_not_joined(x: Tensor) -> Tensor:
    """The heads were moved behind the tokens, but H and d are still two dimensions.

    The next layer expects one width, H * d.

    Which operation makes one dimension of the last two?
    """
    return x.transpose(1, 2)


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def batch_joined_too(x: Tensor) -> Tensor:
    """The batch and the tokens were joined into one dimension.

    Only H and d belong together. The batch has to stay as it is.

    From which dimension on should the tensor be flattened?
    """
    return x.transpose(1, 2).reshape(-1, x.shape[1] * x.shape[3])


@misconception(replaces="merge_heads", caught_by="test_merge_by_hand")
def tokens_of_each_head_in_a_row(x: Tensor) -> Tensor:
    """The last two dimensions were joined, without a transpose before it: (B, H, T * d).

    A row of the result then holds all tokens of one head. It should hold all heads of one token.

    Which two dimensions have to stand at the end before they are joined?
    """
    return x.flatten(2)


@misconception(replaces="merge_heads", caught_by="test_merge_any_shape")
def tokens_and_heads_mistaken(x: Tensor) -> Tensor:
    """The result was given the shape (B, H, T * d).

    With as many heads as tokens this looks right. With other numbers a row holds parts of several tokens.

    Which number comes second in the shape of the result: T or H?
    """
    batch, num_heads, _num_tokens, _d = x.shape
    return x.transpose(1, 2).reshape(batch, num_heads, -1)


@misconception(replaces="merge_heads", caught_by="test_merge_any_shape")
def dimensions_swapped_in_place(x: Tensor) -> Tensor:
    """The dimensions of the given tensor were swapped in place.

    The caller's tensor has another shape afterwards, though it was only lent to the function.

    Which method does the same as `transpose_` and leaves the tensor as it is?
    """
    return x.transpose_(1, 2).reshape(x.shape[0], x.shape[1], -1)


@misconception(replaces="merge_heads", caught_by="test_merge_non_contiguous")
def contiguous_input_needed(x: Tensor) -> Tensor:
    """`view` was called on the input, and that input need not be contiguous.

    `split_heads` ends in a transpose, so what comes here does not lie in memory in the order of its shape.

    Which relative of `view` works on any tensor?
    """
    batch, num_heads, num_tokens, d = x.shape
    heads = x.view(batch * num_heads, num_tokens, d).split(1)
    return torch.stack([torch.cat(heads[b * num_heads : (b + 1) * num_heads], dim=-1)[0] for b in range(batch)])


@misconception(replaces="merge_heads", caught_by="test_merge_non_contiguous")
def strides_taken_for_granted(x: Tensor) -> Tensor:
    """The numbers were read in the order in which they would lie in memory if the tensor were contiguous.

    A transposed tensor lies there in another order, so its numbers came out mixed up, without an error.

    What does `contiguous()` do before memory is read in order?
    """
    batch, num_heads, num_tokens, d = x.shape
    size, stride = (batch, num_tokens, num_heads, d), (num_heads * num_tokens * d, d, num_tokens * d, 1)
    return x.as_strided(size, stride).flatten(2)


@misconception(replaces="merge_heads", caught_by="test_gradients")
def merged_without_gradient(x: Tensor) -> Tensor:
    """The merged tensor was cut off from the gradient.

    The numbers are right, but the heads can no longer learn.

    Was something detached, or copied out of torch and back?
    """
    return reference.merge_heads(x.detach())


@misconception(replaces="merge_heads", caught_by="test_dtype_and_device_kept")
def merged_into_float32(x: Tensor) -> Tensor:
    """The columns came out in float32, which is the dtype of a new tensor, whatever the dtype of the heads was.

    The dtype of the heads is lost, and the next layer meets one that it does not expect.

    What does a new tensor have to take over from x?
    """
    batch, num_heads, num_tokens, d = x.shape
    merged = torch.zeros(batch, num_tokens, num_heads * d, device=x.device)
    for head in range(num_heads):
        merged[..., head * d : (head + 1) * d] = x[:, head]
    return merged


# --- both -------------------------------------------------------------------------------------------------------------


@misconception(replaces=("split_heads", "merge_heads"), caught_by="test_split_by_hand")
def wrong_in_both_directions() -> dict[str, object]:
    """Both functions were a bare reshape.

    Merging then undoes splitting, so the error hides. But a head holds pieces of a few tokens, and not its columns of
    all tokens.

    Which tokens does head 0 hold in your result, and which should it hold?
    """
    return {"split_heads": reshaped_without_transpose, "merge_heads": merged_without_transpose}


# --- the batch in the wrong place -------------------------------------------------------------------------------------


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def heads_and_batch_exchanged(x: Tensor, num_heads: int) -> Tensor:
    """The heads changed places with the batch, and the tokens stayed where they were: (H, T, B, d).

    Attention then compares the sequences of the batch with each other, and no tokens.

    In (B, T, H, d), which dimension has to change places with the heads?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, num_heads, d).transpose(0, 2)


@misconception(replaces="merge_heads", caught_by="test_merge_any_shape")
def merged_with_the_batch(x: Tensor) -> Tensor:
    """The heads changed places with the batch before they were merged, so that a sequence got numbers of another one.

    The shape is right and the numbers are not: what belongs to one sequence has to stay in its part of the batch.

    In (B, H, T, d), which dimension has to stand right before d when the two are joined?
    """
    batch, num_heads, num_tokens, d = x.shape
    return x.transpose(0, 1).reshape(batch, num_tokens, num_heads * d)


@another_form(columns_left_over)
def cut_into_pieces_of_the_rounded_width(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.split(x.shape[-1] // num_heads, dim=-1), dim=1)


@misconception(replaces="split_heads", caught_by="test_split_by_hand")
def heads_and_width_exchanged(x: Tensor, num_heads: int) -> Tensor:
    """The heads changed places with the width of a head, and not with the tokens: (B, d, T, H).

    Each matrix of tokens then holds one column of every head, and a product of such matrices mixes the heads.

    After `view(B, T, H, d)`, at which two places do T and H stand?
    """
    batch, num_tokens, d = _sizes(x, num_heads)
    return x.reshape(batch, num_tokens, num_heads, d).transpose(1, 3)
