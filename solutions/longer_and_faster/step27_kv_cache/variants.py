"""Right ways to write step 27 that are not the reference's."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.core.step12_gpt.reference import GPT
from solutions.longer_and_faster.step27_kv_cache import reference


@variant(
    replaces="KVCache",
    trades="It takes no more memory than there are tokens; each update copies all that it holds.",
)
class Concatenated:
    """Grows by torch.cat; length is a property."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self.keys is None else self.keys.size(2)

    def update(self, key: Tensor, value: Tensor) -> list[Tensor]:
        assert self.length + key.size(2) <= self.max_length, "full"
        key, value = key.detach(), value.detach()
        if self.keys is not None and self.values is not None:
            key, value = torch.cat([self.keys, key], 2), torch.cat([self.values, value], 2)
        self.keys, self.values = key, value
        return [key, value]

    def reset(self) -> None:
        self.keys = self.values = None


@variant(replaces="KVCache")
class ModuleWithPieces(nn.Module):
    """A module, though none is needed; it keeps the pieces and joins them when asked."""

    def __init__(self, max_length: int) -> None:
        super().__init__()
        self.room = max_length
        self.pieces: list[tuple[Tensor, Tensor]] = []
        self.length = 0

    @torch.no_grad()
    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if key.shape[2] > self.room - self.length:
            raise RuntimeError(f"no room for {key.shape[2]} more")
        self.pieces.append((key.clone(), value.clone()))
        self.length += key.shape[2]
        keys, values = zip(*self.pieces, strict=True)
        return torch.cat(keys, dim=2), torch.cat(values, dim=2)

    def reset(self) -> "ModuleWithPieces":
        self.pieces.clear()
        self.length = 0
        return self


@variant(replaces="KVCache")
class LikeASequence:
    """It has a length and items of its own, as Hugging Face's caches have."""

    def __init__(self, max_length: int) -> None:
        self.inner = reference.KVCache(max_length)

    length = property(lambda self: self.inner.length)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> Tensor:
        return (self.inner.keys, self.inner.values)[place]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for tensor in self.inner.update(key.contiguous(), value.contiguous()))

    def reset(self) -> None:
        self.inner.reset()


@variant(replaces="repeat_kv")
def expanded(x: Tensor, n_rep: int) -> Tensor:
    """Llama's way: an axis is put in, expanded and merged."""
    B, H, T, d = x.shape
    if n_rep == 1:
        return x
    return x[:, :, None, :, :].expand(B, H, n_rep, T, d).reshape(B, H * n_rep, T, d)


@variant(replaces="repeat_kv")
def by_index(x: Tensor, n_rep: int) -> Tensor:
    """The heads picked by their numbers."""
    return x[:, torch.arange(x.shape[1] * n_rep, device=x.device) // n_rep]


@variant(
    replaces="GroupedQueryAttention",
    trades="Fast kernels do the work; the mask has to be aligned to the last key by hand.",
)
class BuiltIn(reference.GroupedQueryAttention):
    """scaled_dot_product_attention with a mask that is aligned to the last key."""

    def forward(self, x: Tensor, cache: Any = None) -> Tensor:
        B, T, D = x.shape
        d = D // self.n_head
        q = self.q_proj(x).view(B, T, self.n_head, d).transpose(1, 2)
        k, v = (layer(x).view(B, T, self.n_kv_heads, d).transpose(1, 2) for layer in (self.k_proj, self.v_proj))
        if cache is not None:
            k, v = cache.update(k, v)
        rows = torch.arange(k.size(2) - T, k.size(2), device=x.device)
        mask = torch.arange(k.size(2), device=x.device) <= rows[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, D))


@variant(
    replaces="GroupedQueryAttention",
    trades="No head is ever repeated in memory; einsum finds no kernel that keeps the scores out of it.",
)
class GroupsOnAnAxis(reference.GroupedQueryAttention):
    """Nothing is repeated: the groups have an axis of their own, and einsum broadcasts."""

    def forward(self, x: Tensor, cache: Any = None) -> Tensor:
        B, T, D = x.shape
        g, d = self.n_kv_heads, D // self.n_head
        q = self.q_proj(x).view(B, T, g, self.n_head // g, d)
        k = self.k_proj(x).view(B, T, g, d).permute(0, 2, 1, 3)
        v = self.v_proj(x).view(B, T, g, d).permute(0, 2, 1, 3)
        past = 0
        if cache is not None:
            past = cache.length
            k, v = cache.update(k, v)
        scores = torch.einsum("btgrd,bgsd->bgrts", q, k) / d**0.5
        future = torch.ones(T, past + T, device=x.device).triu(past + 1).bool()
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o_proj(torch.einsum("bgrts,bgsd->btgrd", weights, v).reshape(B, T, D))


@variant(replaces="CachedGPT")
class BlocksByHand(GPT):
    """The forward pass written out, with the built-in, and a mask only where it is needed."""

    def forward(self, idx: Tensor, caches: Sequence[Any] | None = None) -> Tensor:  # type: ignore[override]
        B, t = idx.shape
        start = caches[0].length if caches is not None else 0
        assert start + t <= self.wpe.num_embeddings
        pos = torch.arange(start, start + t, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)[None]
        for i, block in enumerate(self.h):
            qkv = block.attn.c_attn(block.ln_1(x))
            q, k, v = (part.view(B, t, block.attn.n_head, -1).transpose(1, 2) for part in qkv.split(x.size(-1), -1))
            if caches is not None:
                k, v = caches[i].update(k, v)
            mask = None if t == 1 else torch.ones(t, start + t, dtype=torch.bool, device=x.device).tril(start)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + block.attn.c_proj(y.transpose(1, 2).contiguous().view(B, t, -1))
            x = x + block.mlp(block.ln_2(x))
        return self.lm_head(self.ln_f(x))


@variant(replaces="generate_cached")
@torch.inference_mode()
def prompt_first(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The prompt by itself, then the loop; the ids written into a tensor that is there already."""
    B, T = idx.shape
    if T + max_new_tokens > model.wpe.weight.shape[0]:
        raise ValueError("too long")
    training, out = model.training, torch.empty(B, T + max_new_tokens, dtype=idx.dtype, device=idx.device)
    out[:, :T] = idx
    if max_new_tokens == 0:
        return out
    model.eval()
    try:
        caches = tuple(reference.KVCache(model.wpe.weight.shape[0]) for _ in range(len(model.h)))
        logits = model(idx, caches)[:, -1]
        for place in range(T, T + max_new_tokens):
            out[:, place] = logits.max(-1).indices
            if place + 1 < T + max_new_tokens:
                logits = model(out[:, place : place + 1], caches)[:, -1]
    finally:
        model.train(training)
    return out


@variant(replaces="kv_cache_bytes")
def added_up(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Layer by layer, keys and values each."""
    keys = batch_size * n_kv_heads * num_tokens * head_dim * bytes_per_element
    return sum(keys + keys for _ in range(n_layer))
