"""Right ways to write step 11 that are not the reference's."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.core.step09_fused_qkv.reference import CausalSelfAttention
from solutions.core.step11_gpt_block import reference


@variant(replaces="LayerNorm")
class NormByVar(nn.Module):
    """torch.var and rsqrt; the bias made first; parameters that start at random."""

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        if bias:
            self.bias = nn.Parameter(torch.randn(n_embd))
        self.weight = nn.Parameter(torch.rand(n_embd))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
        x = (x - mean) * torch.rsqrt(variance + self.eps) * self.weight
        return x + self.bias if hasattr(self, "bias") else x


@variant(
    replaces="LayerNorm",
    trades="Both sums come from one pass over the row; float32 would lose digits in their difference.",
)
class NormInFloat64(nn.Module):
    """Mean of squares minus square of the mean, which is exact enough when it is done in float64."""

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_embd))
        self.register_parameter("bias", nn.Parameter(torch.zeros(n_embd)) if bias else None)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.double()
        mean = wide.mean(-1, keepdim=True)
        variance = (wide**2).mean(-1, keepdim=True) - mean**2
        out = self.weight * ((wide - mean) / torch.sqrt(variance.clamp(min=0.0) + self.eps)).to(x.dtype)
        if self.bias is not None:
            out += self.bias
        return out


@variant(replaces="LayerNorm")
class NormBySum(nn.Module):
    """Sums divided by the width, and F.linear-free products with einsum."""

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.n_embd, self.eps = n_embd, eps
        self.weight = nn.Parameter(torch.full((n_embd,), 0.5))
        self.bias = nn.Parameter(torch.zeros(n_embd)) if bias else 0.0

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.sum(-1, keepdim=True) / self.n_embd
        variance = torch.einsum("...d,...d->...", centred, centred) / self.n_embd
        return centred / (variance + self.eps)[..., None] ** 0.5 * self.weight + self.bias


@variant(replaces="LayerNorm")
class NormByOneProduct(nn.Module):
    """Scaled first and shifted then, x * s + (bias - mean * s), as fused kernels write it."""

    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_embd))
        self.bias = nn.Parameter(torch.zeros(n_embd)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        scale = torch.rsqrt(variance + self.eps) * self.weight
        shift = -mean * scale if self.bias is None else self.bias - mean * scale
        return x * scale + shift


@variant(replaces="gelu")
def gelu_with_a_tensor_constant(x: Tensor) -> Tensor:
    """As LLMs-from-scratch writes it: the factor is a tensor, which is float32 whatever x is."""
    return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / torch.pi)) * (x + 0.044715 * torch.pow(x, 3))))


@variant(
    replaces="gelu",
    trades="A sigmoid in place of a tanh: shorter, the same curve; the paper's form is harder to recognise.",
)
def gelu_as_a_sigmoid(x: Tensor) -> Tensor:
    """The same curve with (1 + tanh(u)) / 2 written as sigmoid(2 u)."""
    return x * torch.sigmoid(1.5957691216057308 * x * (1.0 + 0.044715 * x * x))


@variant(replaces="gelu")
def gelu_by_exponentials(x: Tensor) -> Tensor:
    """The same curve with tanh written out."""
    inner = 2.0 * math.sqrt(2.0 / math.pi) * torch.addcmul(x, x.pow(2), x, value=0.044715)
    return x - x / (torch.exp(inner) + 1)


@variant(replaces="MLP")
class SequentialMLP(nn.Module):
    """The layers called with F.linear, the dropout a module, the parameters made in the other order."""

    def __init__(self, n_embd: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.c_proj = nn.Linear(4 * n_embd, n_embd, bias)
        self.c_fc = nn.Linear(n_embd, 4 * n_embd, bias)
        nn.init.normal_(self.c_fc.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        hidden = reference.gelu(F.linear(x, self.c_fc.weight, self.c_fc.bias))
        out: Tensor = self.drop(F.linear(hidden, self.c_proj.weight, self.c_proj.bias))
        return out


@variant(replaces="Block")
class BlockWithShortcuts(nn.Module):
    """The shortcut kept under a name, the parts made in another order, as LLMs-from-scratch writes it."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.mlp = SequentialMLP(n_embd, dropout, bias)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, dropout, bias)
        self.ln_2 = NormByVar(n_embd, bias)
        self.ln_1 = NormByVar(n_embd, bias)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        x = self.ln_1(x)
        x = self.attn(x)
        x = x + shortcut
        shortcut = x
        x = self.mlp(self.ln_2(x))
        return torch.add(x, shortcut)


class _Attention(nn.Module):
    """Step 9 again, through the built-in, with the weights in nn.Linear of the same names.

    As in nanoGPT no length is looked at: this step names none as wrong. The model of step 12 refuses what is too long.
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float, bias: bool) -> None:
        super().__init__()
        assert n_embd % n_head == 0
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd, bias), nn.Linear(n_embd, n_embd, bias)
        self.n_head, self.p = n_head, dropout

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        heads = self.c_attn(x).view(B, T, 3, self.n_head, D // self.n_head).permute(2, 0, 3, 1, 4)
        rate = self.p if self.training else 0.0
        context = F.scaled_dot_product_attention(*heads.unbind(0), dropout_p=rate, is_causal=True)
        return F.dropout(self.c_proj(context.transpose(1, 2).flatten(2)), self.p, self.training)


@variant(replaces="Block")
class BlockOfItsOwnParts(reference.Block):
    """An attention of its own, with step 9's names and behaviour."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.attn = _Attention(n_embd, n_head, dropout, bias)  # type: ignore[assignment]  # same names
