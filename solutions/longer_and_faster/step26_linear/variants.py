"""Right ways to write step 26 that are not the reference's."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import variant
from solutions.longer_and_faster.step26_linear.reference import feature_map, linear_attention_step

State = tuple[Tensor, Tensor] | None


@variant(replaces="feature_map")
def by_clamping(x: Tensor) -> Tensor:
    """Both branches at once, each given only what is its own."""
    return x.clamp(min=0) + x.clamp(max=0).exp()


@variant(replaces="feature_map")
def by_where(x: Tensor) -> Tensor:
    """torch.where, with the exponential kept from large numbers; celu is elu at alpha = 1."""
    below = torch.exp(torch.where(x > 0, torch.zeros_like(x), x))
    return torch.where(x > 0, F.celu(x) + 1.0, below)


@variant(
    replaces="linear_attention",
    trades="There is nothing to cut into chunks; the state of every token is in memory at once.",
)
def cumulative_sums(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """A state for every token, by cumulative sums of outer products; a guard of 1e-6, as in the paper's own code."""
    if is_causal and query.shape[2] != key.shape[2]:
        raise ValueError("lengths differ")
    q, k = F.elu(query) + 1, F.elu(key) + 1
    if is_causal:
        states = torch.einsum("bhtd,bhtv->bhtdv", k, value).cumsum(dim=2)
        weighted = torch.einsum("bhtd,bhtdv->bhtv", q, states)
        total = torch.einsum("bhtd,bhtd->bht", q, k.cumsum(dim=2))
    else:
        weighted = torch.einsum("bhtd,bhdv->bhtv", q, torch.einsum("bhtd,bhtv->bhdv", k, value))
        total = torch.einsum("bhtd,bhd->bht", q, k.sum(dim=2))
    return weighted / (total.unsqueeze(-1) + 1e-6)


@variant(
    replaces="linear_attention",
    trades="Training and generating share one piece of code; it takes as many small steps as there are tokens.",
)
def token_by_token(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal form as steps, one after the other."""
    if not is_causal:
        q, k = feature_map(query), feature_map(key)
        normaliser = 1 / (q @ k.sum(dim=-2)[..., None])
        return q @ (k.mT @ value) * normaliser
    assert query.shape[-2] == key.shape[-2]
    outputs = []
    state: State = None
    for q, k, v in zip(query.unbind(-2), key.unbind(-2), value.unbind(-2), strict=True):
        output, state = linear_attention_step(q, k, v, state)
        outputs.append(output)
    return torch.stack(outputs, dim=-2)


@variant(
    replaces="linear_attention",
    trades="There is no loop at all; the states of all chunks are in memory at once.",
)
def chunks_all_at_once(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Padded to whole chunks; the states before each chunk by one cumulative sum."""
    if query.size(-2) != key.size(-2) and is_causal:
        raise RuntimeError("T_q and T_k differ")
    q, k = feature_map(query), feature_map(key)
    v = F.pad(value, (0, 1), value=1.0)
    if not is_causal:
        out = q @ torch.matmul(k.transpose(2, 3), v)
        return out[..., :-1] / out[..., -1].unsqueeze(-1)
    T, C = q.shape[2], 16
    q, k, v = (F.pad(x, (0, 0, 0, -T % C)).unflatten(2, (-1, C)) for x in (q, k, v))
    states = k.mT @ v  # (B, H, chunks, d, d_v + 1)
    before = states.cumsum(dim=2) - states
    inside = (q @ k.mT) * torch.ones(C, C, dtype=q.dtype, device=q.device).tril()
    out = (q @ before + inside @ v).flatten(2, 3)[:, :, :T]
    return out[..., :-1] / out[..., -1:].clamp(min=1e-10)


@variant(replaces="linear_attention")
def feature_by_feature(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """One feature at a time: what it adds to both sums of every query. Halves are added up in float32."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal")
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = feature_map(query.to(wide)), feature_map(key.to(wide)), value.to(wide)
    weighted = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
    total = torch.zeros_like(weighted[..., :1])
    for feature in range(q.shape[-1]):
        column, row = k[..., feature : feature + 1], q[..., feature : feature + 1]
        products = column * v
        sums = products.cumsum(-2) if is_causal else products.sum(-2, keepdim=True)
        counts = column.cumsum(-2) if is_causal else column.sum(-2, keepdim=True)
        weighted, total = weighted + row * sums, total + row * counts
    return (weighted / total).to(query.dtype)


@variant(replaces="linear_attention_step")
def zeros_first(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, list[Tensor]]:
    """An empty state is a state of zeros; the state is a list, which is a pair as well."""
    q, k = feature_map(query), feature_map(key)
    if state is None:
        state = (value.new_zeros(*key.shape, value.shape[-1]), torch.zeros_like(key))
    S, z = state
    S = S + torch.einsum("bhi,bhj->bhij", k, value)
    z = z + k
    return torch.einsum("bhi,bhij->bhj", q, S) / (torch.einsum("bhi,bhi->bh", q, z)[..., None] + 1e-6), [S, z]


@variant(replaces="linear_attention_step")
def by_matrix_products(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Column times row, row times matrix."""
    q, k = feature_map(query).unsqueeze(-2), feature_map(key).unsqueeze(-1)
    S, z = k @ value.unsqueeze(-2), k
    if state:
        S, z = state[0] + S, state[1].unsqueeze(-1) + z
    return (q @ S / (q @ z)).squeeze(-2), (S, z.squeeze(-1))
