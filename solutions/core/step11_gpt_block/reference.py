"""The GPT block: norm, attention, norm, MLP

A Transformer is one block, repeated. The block keeps a stream of vectors, one a token, and adds to it twice: once what
attention gathers from the other tokens, once what a small network (an MLP) makes of each token by itself. Both read the
stream through a layer norm, and both only add, so that the stream itself passes from the first block to the last.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.

Off limits: nn.LayerNorm, F.layer_norm, torch.layer_norm, nn.GELU, F.gelu, nn.TransformerEncoderLayer and kin.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.core.step09_fused_qkv.reference import CausalSelfAttention


class LayerNorm(nn.Module):
    """Every vector shifted to mean 0 and stretched to variance 1, then scaled and shifted by what was learned.

    Parameters: weight (n_embd,) and bias (n_embd,); no bias when bias is False.
    """

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n_embd))
        self.bias = nn.Parameter(torch.zeros(n_embd)) if bias else None
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., n_embd) -> the same shape. The variance is the biased one, and eps stands inside the root.

        Rows far from zero, as around 1000, keep their digits; the result has the dtype of x.
        """
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # halves are too coarse for the mean of squares
        centred = wide - wide.mean(dim=-1, keepdim=True)  # (..., n_embd)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., 1)
        normed = (centred / torch.sqrt(variance + self.eps)).to(x.dtype)  # (..., n_embd)
        return normed * self.weight if self.bias is None else normed * self.weight + self.bias  # (..., n_embd)
        ### END SOLUTION


def gelu(x: Tensor) -> Tensor:
    """The Gaussian error linear unit in GPT-2's tanh form, element by element. Any shape -> the same shape."""
    ### BEGIN SOLUTION
    # sqrt(2 / pi) and 0.044715 are from Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2: with
    # them tanh comes close to the normal distribution's erf. GPT-2 was trained with this form, not with erf.
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + torch.tanh(inner))
    ### END SOLUTION


class MLP(nn.Module):
    """Two linear layers, four times wider in between, applied to every token by itself.

    Parameters: c_fc (nn.Linear to 4 * n_embd) and c_proj (nn.Linear back); neither has a bias when bias is False.
    """

    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.c_fc = nn.Linear(n_embd, 4 * n_embd, bias=bias)
        self.c_proj = nn.Linear(4 * n_embd, n_embd, bias=bias)
        self.dropout = dropout
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., n_embd) -> the same shape: c_fc, gelu, c_proj, then dropout."""
        ### BEGIN SOLUTION
        hidden = gelu(self.c_fc(x))  # (..., 4 * n_embd)
        return F.dropout(self.c_proj(hidden), self.dropout, self.training)  # (..., n_embd)
        ### END SOLUTION


class Block(nn.Module):
    """One layer of GPT-2: each branch reads the stream through its own norm and adds what it found.

    Submodules: ln_1 (LayerNorm), attn (CausalSelfAttention of step 9), ln_2 (LayerNorm), mlp (MLP).
    dropout and bias go to all the parts that know them.
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.ln_1 = LayerNorm(n_embd, bias=bias)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, dropout=dropout, bias=bias)
        self.ln_2 = LayerNorm(n_embd, bias=bias)
        self.mlp = MLP(n_embd, dropout=dropout, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, n_embd) -> the same shape: x + attn(ln_1(x)), then x + mlp(ln_2(x)).

        B sequences, T tokens, n_embd the model width (called D elsewhere).
        """
        ### BEGIN SOLUTION
        x = x + self.attn(self.ln_1(x))  # (B, T, n_embd)
        return x + self.mlp(self.ln_2(x))  # (B, T, n_embd)
        ### END SOLUTION
