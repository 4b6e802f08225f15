"""Right ways of step 7 that differ from the reference."""

import torch
from torch import Tensor

from grader.checks.catalogue import variant


@variant(replaces="split_heads")
def viewed_and_permuted(x: Tensor, num_heads: int) -> Tensor:
    """The book's `view`, a permutation, and a contiguous copy."""
    b, num_tokens, d_in = x.shape
    assert d_in % num_heads == 0, "d_in must be divisible by num_heads"
    return x.view(b, num_tokens, num_heads, d_in // num_heads).permute(0, 2, 1, 3).contiguous()


@variant(
    replaces="split_heads",
    trades="It says head by head what happens; it copies the tensor, where a view needs no copy.",
)
def pieces_stacked(x: Tensor, num_heads: int) -> Tensor:
    """A loop over the heads, stacked."""
    width = x.shape[-1]
    if width % num_heads != 0:
        raise RuntimeError("the heads cannot share the width")
    return torch.stack(x.split(width // num_heads, dim=-1), dim=1)


@variant(
    replaces="split_heads",
    trades="One call finds the width and refuses what does not divide; it says less about what moves.",
)
def unflattened(x: Tensor, num_heads: int) -> Tensor:
    """`unflatten`, which finds the width and refuses what does not fit."""
    return x.unflatten(-1, (num_heads, -1)).movedim(2, 1)


@variant(replaces="split_heads")
def gathered_by_index(x: Tensor, num_heads: int) -> Tensor:
    """The columns of each head are picked by their numbers."""
    width = x.shape[2]
    if width != (width // num_heads) * num_heads:
        raise ValueError(width, num_heads)
    columns = torch.arange(width, device=x.device).view(num_heads, -1)
    return x[:, :, columns].swapaxes(1, 2)


@variant(replaces="split_heads")
def picked_by_a_product(x: Tensor, num_heads: int) -> Tensor:
    """A product with the identity, cut into heads, picks the columns."""
    width = x.shape[-1]
    identity = torch.eye(width, dtype=x.dtype, device=x.device).view(width, num_heads, -1)
    return torch.einsum("btc,chd->bhtd", x, identity)


@variant(replaces="split_heads")
def reshaped_from_transposed(x: Tensor, num_heads: int) -> Tensor:
    """The columns come first, are cut there, and are turned back."""
    batch, num_tokens, width = x.size()
    return (
        x.mT.reshape(batch, num_heads, width // num_heads, num_tokens).mT if width % num_heads == 0 else x.view(-1, 0)
    )


@variant(replaces="merge_heads")
def contiguous_and_viewed(x: Tensor) -> Tensor:
    """The book's way: transpose, contiguous, view."""
    b, num_heads, num_tokens, head_dim = x.shape
    return x.transpose(1, 2).contiguous().view(b, num_tokens, num_heads * head_dim)


@variant(
    replaces="merge_heads",
    trades="`cat` says what is meant, and copies once, as `contiguous` does.",
)
def heads_side_by_side(x: Tensor) -> Tensor:
    """The heads are concatenated along the width."""
    return torch.cat([x[:, head] for head in range(x.shape[1])], dim=-1)


@variant(replaces="merge_heads")
def unbound_and_stacked_hstack(x: Tensor) -> Tensor:
    """`unbind`, and `concat` of the pieces."""
    return torch.concat(x.unbind(1), -1)


@variant(replaces="merge_heads")
def flattened(x: Tensor) -> Tensor:
    """A permutation and `flatten`."""
    return x.permute(0, 2, 1, 3).flatten(start_dim=-2)


@variant(replaces="merge_heads")
def written_into_a_new_tensor(x: Tensor) -> Tensor:
    """A new tensor of the same kind is filled head by head."""
    batch, num_heads, num_tokens, d = x.shape
    merged = x.new_zeros(batch, num_tokens, num_heads * d)
    for head in range(num_heads):
        merged[:, :, head * d : (head + 1) * d] = x[:, head]
    return merged


@variant(replaces="merge_heads")
def transposed_result(x: Tensor) -> Tensor:
    """The columns are joined first and turned into place: the result is not contiguous."""
    return x.mT.flatten(1, 2).mT


@variant(replaces=("split_heads", "merge_heads"))
def batch_entry_by_batch_entry() -> dict[str, object]:
    """Loops over the batch in both directions."""

    def split_heads(x: Tensor, num_heads: int) -> Tensor:
        d, rest = divmod(x.shape[-1], num_heads)
        if rest:
            raise ValueError(f"{x.shape[-1]} columns, {num_heads} heads")
        return torch.stack([torch.stack([entry.narrow(1, h * d, d) for h in range(num_heads)]) for entry in x])

    def merge_heads(x: Tensor) -> Tensor:
        return torch.stack([torch.hstack(list(entry)) for entry in x])

    return {"split_heads": split_heads, "merge_heads": merge_heads}
