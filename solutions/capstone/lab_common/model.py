"""The kit's own GPT for labs, made of PyTorch's built-ins: for a reader who has not written steps 9 to 12 yet.

It has GPT-2's parameter names, so that a checkpoint fits it and a learner's own GPT alike, and a switch that no step
asks for, `causal`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

INITIAL_DEVIATION = 0.08  # GPT-2's 0.02 starts slowly at this width


class Attention(nn.Module):
    """`c_attn` and `c_proj` around the built-in attention."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, width) -> the same shape."""
        parts = self.c_attn(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, B, H, T, d)
        context = F.scaled_dot_product_attention(*parts, is_causal=self.causal)  # (B, H, T, d)
        mixed: Tensor = self.c_proj(context.transpose(1, 2).flatten(2))  # (B, T, width)
        return mixed


class Layer(nn.Module):
    """Attention, then a small network for each token; each reads what a norm hands it and adds to the stream."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, causal)
        wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.ModuleDict({"c_fc": wide, "c_proj": narrow})

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, width) -> the same shape."""
        x = x.add(self.attn(self.ln_1(x)))
        inner = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](inner)


class GPT(nn.Module):
    """As step 12 describes it, without dropout. `causal=False` lets every token see the later ones too."""

    def __init__(
        self, vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, causal: bool = True
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList(Layer(n_embd, n_head, causal) for _layer in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, False)
        self.lm_head.register_parameter("weight", self.wte.weight)  # one and the same

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """idx, targets: (B, T) -> logits (B, T, vocab_size), and the mean loss where there are targets."""
        stream = self.wte(idx) + self.wpe.weight[: idx.shape[1]]
        for layer in self.h:
            stream = layer(stream)
        logits = self.lm_head(self.ln_f(stream))
        return logits, None if targets is None else F.cross_entropy(logits.transpose(1, 2), targets)


def next_token_batches(token_ids: Tensor, context_length: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (inputs, targets), both (B, T): windows side by side, the targets one token later."""
    windows = token_ids.unfold(0, context_length + 1, context_length)  # (windows, T + 1)
    for few in windows.split(batch_size):
        yield few[:, :-1], few[:, 1:]


def initialise(model: nn.Module, seed: int) -> None:
    """The same initial weights whoever wrote the model: they depend on the seed and on the parameters' names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                drawn = torch.randn(parameter.shape, generator=generator) * INITIAL_DEVIATION
                parameter.copy_(drawn.to(parameter))
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)


@torch.no_grad()
def generate(
    model: nn.Module, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """idx: (B, T) -> (B, T + max_new_tokens), drawn from PyTorch's global random state."""
    before = model.training
    model.eval()
    longest = model.get_parameter("wpe.weight").shape[0]
    for _place in [None] * max_new_tokens:
        last = model(idx[:, -longest:])[0][:, -1].float()
        if top_k is not None and top_k < last.shape[1]:
            least = last.kthvalue(last.shape[1] - top_k + 1, keepdim=True).values
            last = torch.where(last < least, -torch.inf, last)
        drawn = last.argmax(1, True) if temperature == 0 else (last / temperature).softmax(1).multinomial(1)
        idx = torch.cat([idx, drawn], 1)
    model.train(before)
    return idx
