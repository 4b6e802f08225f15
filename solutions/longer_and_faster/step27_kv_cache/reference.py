"""The KV cache: every token goes through the model once

A model that writes makes one token, and needs the keys and values of all tokens before it. These do not change: in a
causal model nothing that comes later reaches back. So they are kept, and each new token brings only its own. What is
kept soon takes more memory than the model, and sharing keys and values between heads makes it smaller.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. Instead of -inf a mask may fill in a finite number:
next to visible scores of up to ±1,000 a hidden one must stay without weight. A module has no other parameters than
those named, and may be part of a parent module whose `eval()` is called. Where a ValueError is named, any error will
do.

Off limits: nothing. Mind that scaled_dot_product_attention aligns is_causal to the first key: with more keys than
queries it is the wrong mask.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from solutions.core.step12_gpt.reference import GPT


class KVCache:
    """The keys and values of one layer: an empty one holds up to max_length tokens.

    length: how many tokens it holds. Batch size, heads, widths, dtype and device are those of the first update after
    the start or a reset. Two caches share nothing.
    """

    def __init__(self, max_length: int) -> None:
        ### BEGIN SOLUTION
        self.max_length = max_length
        self.reset()
        ### END SOLUTION

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add t >= 1 new tokens, (B, H, t, d) and (B, H, t, d_v); return all keys and all values since the start.

        They come back bit for bit and in order, (B, H, length, d) and (B, H, length, d_v), and carry no gradient. What
        an earlier update returned may change after a reset. Raises ValueError when there would be more than max_length
        tokens, and the cache stays as it was.
        """
        ### BEGIN SOLUTION
        stop = self.length + key.shape[-2]
        if stop > self.max_length:
            raise ValueError(f"{stop} tokens do not fit into a cache of {self.max_length}")
        if self.length == 0:  # the memory for all tokens is taken once, and filled in as they come
            self.keys = key.new_empty(*key.shape[:2], self.max_length, key.shape[-1])
            self.values = value.new_empty(*value.shape[:2], self.max_length, value.shape[-1])
        self.keys[..., self.length : stop, :] = key.detach()
        self.values[..., self.length : stop, :] = value.detach()
        self.length = stop
        return self.keys[..., :stop, :], self.values[..., :stop, :]
        ### END SOLUTION

    def reset(self) -> None:
        """Empty the cache."""
        ### BEGIN SOLUTION
        self.length = 0
        self.keys = self.values = torch.empty(0)
        ### END SOLUTION


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Repeat each head n_rep times in place: (B, H_kv, T, d) -> (B, H_kv * n_rep, T, d). Head h is head h // n_rep."""
    ### BEGIN SOLUTION
    return x.repeat_interleave(n_rep, dim=1)  # (B, H_kv * n_rep, T, d)
    ### END SOLUTION


class GroupedQueryAttention(nn.Module):
    """Causal attention in which n_head / n_kv_heads query heads share one head of keys and values.

    d = n_embd / n_head is the width of a head. q_proj and o_proj: nn.Linear from n_embd to n_embd; k_proj and v_proj:
    nn.Linear from n_embd to n_kv_heads * d. Biases as `bias` says. Query head h uses key and value head
    h // (n_head / n_kv_heads); scores are divided by the root of d.
    Raises ValueError when n_embd is not divisible by n_head, or n_head not by n_kv_heads.
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_heads: int, bias: bool = False) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if n_embd % n_head or n_head % n_kv_heads:
            raise ValueError(f"{n_kv_heads} key heads, {n_head} heads and a width of {n_embd} do not divide each other")
        self.n_head, self.n_kv_heads = n_head, n_kv_heads
        width = n_embd // n_head * n_kv_heads
        self.q_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.k_proj = nn.Linear(n_embd, width, bias=bias)
        self.v_proj = nn.Linear(n_embd, width, bias=bias)
        self.o_proj = nn.Linear(n_embd, n_embd, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """(B, T, n_embd) -> (B, T, n_embd). With a cache the tokens of x follow those it holds, and join them.

        The cache holds n_kv_heads heads. Fed in pieces of any lengths, with one cache, a text gives what it gives at
        once.
        """
        ### BEGIN SOLUTION
        query = split(self.q_proj(x), self.n_head)  # (B, H, T, d)
        key, value = split(self.k_proj(x), self.n_kv_heads), split(self.v_proj(x), self.n_kv_heads)  # (B, H_kv, T, d)
        output: Tensor = self.o_proj(attend(query, key, value, cache))  # (B, T, n_embd)
        return output
        ### END SOLUTION


class CachedGPT(GPT):
    """Step 12's GPT, with the same arguments and parameters, that goes on from caches. Only asked for in eval mode."""

    def forward(self, idx: Tensor, caches: Sequence[KVCache] | None = None) -> Tensor:  # type: ignore[override]
        """Return the logits (B, t, vocab_size) of the tokens idx, (B, t).

        caches: one KVCache for each layer, which hold the tokens before idx. Positions go on from their length, and
        the logits are those of the whole text given at once. Without caches idx is the whole text.
        Raises ValueError when there are more than block_size tokens in all.
        """
        ### BEGIN SOLUTION
        past = caches[0].length if caches else 0
        num_tokens = past + idx.shape[1]
        if num_tokens > self.block_size:
            raise ValueError(f"{num_tokens} tokens were given, but block_size is {self.block_size}")
        positions = torch.arange(past, num_tokens, device=idx.device)  # (t,)
        x = self.drop(self.wte(idx) + self.wpe(positions))  # (B, t, D)
        for layer, block in enumerate(self.h):
            parts = block.attn.c_attn(block.ln_1(x)).chunk(3, dim=-1)  # query, key and value, (B, t, D) each
            heads = (split(part, block.attn.n_head) for part in parts)  # (B, H, t, d) each
            x = x + block.attn.c_proj(attend(*heads, caches[layer] if caches else None))  # (B, t, D)
            x = x + block.mlp(block.ln_2(x))  # (B, t, D)
        logits: Tensor = self.lm_head(self.ln_f(x))  # (B, t, vocab_size)
        return logits
        ### END SOLUTION


def generate_cached(model: CachedGPT, idx: Tensor, max_new_tokens: int) -> Tensor:
    """Append max_new_tokens tokens to idx, always the one with the largest logit: (B, T) -> (B, T + max_new_tokens).

    It gives what step 12's generate gives at temperature=0. Every token goes through the model once: all its matrix
    products take at most 1.5 times those of one forward pass over T + max_new_tokens tokens. The model is evaluated in
    eval mode and gets back the mode it had; idx is not modified.
    Raises ValueError when T + max_new_tokens > block_size.
    """
    ### BEGIN SOLUTION
    length = idx.shape[1] + max_new_tokens
    if length > model.block_size:
        raise ValueError(f"{length} tokens in all, but block_size is {model.block_size}")
    was_training = model.training
    model.eval()
    caches = [KVCache(length) for _layer in model.h]
    new = idx  # what the caches do not hold yet
    with torch.no_grad():
        for _token in range(max_new_tokens):
            new = model(new, caches)[:, -1:].argmax(dim=-1)  # (B, 1)
            idx = torch.cat((idx, new), dim=1)  # (B, T + 1)
    model.train(was_training)
    return idx
    ### END SOLUTION


def kv_cache_bytes(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Bytes that the keys and values of all layers take. head_dim: d; bytes_per_element: 2 in half precision."""
    ### BEGIN SOLUTION
    return 2 * n_layer * batch_size * num_tokens * n_kv_heads * head_dim * bytes_per_element
    ### END SOLUTION


### BEGIN SOLUTION
def split(x: Tensor, heads: int) -> Tensor:
    """(B, T, heads * d) -> (B, heads, T, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor, cache: KVCache | None) -> Tensor:
    """Causal attention of the last T tokens to these and to those in the cache, the heads merged: (B, T, H * d)."""
    if cache is not None:
        key, value = cache.update(key, value)  # (B, H_kv, past + T, d)
    n_rep, past = query.shape[1] // key.shape[1], key.shape[2] - query.shape[2]
    scores = query @ repeat_kv(key, n_rep).transpose(-2, -1) * query.shape[-1] ** -0.5  # (B, H, T, past + T)
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril(past)  # (T, past + T)
    weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    return (weights @ repeat_kv(value, n_rep)).transpose(1, 2).flatten(2)  # (B, H, T, d) -> (B, T, H * d)


### END SOLUTION
