import torch
from torch import nn
from torch.nn import functional as F

from exercises.step09_fused_qkv import CausalSelfAttention


class LayerNorm(nn.Module):
    def __init__(self, n_embd, bias=True, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones((n_embd,)))
        if bias:
            self.bias = nn.Parameter(torch.zeros(n_embd))
        else:
            self.bias = None

    def forward(self, x):
        h = x.double() if x.dtype == torch.float64 else x.float()
        h = h - h.mean(-1, keepdim=True)
        h = h * torch.rsqrt((h * h).mean(-1, keepdim=True) + self.eps)
        y = h.to(x.dtype) * self.weight
        return y if self.bias is None else y + self.bias


def gelu(x):
    return F.gelu(x, approximate="tanh")


class MLP(nn.Module):
    def __init__(self, n_embd, dropout=0.0, bias=True):
        super().__init__()
        self.c_fc = nn.Linear(n_embd, n_embd * 4, bias)
        self.c_proj = nn.Linear(n_embd * 4, n_embd, bias)
        self.drop = nn.Dropout(p=dropout)

    def forward(self, x):
        return self.drop(self.c_proj(gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout=0.0, bias=True):
        super().__init__()
        self.ln_1 = LayerNorm(n_embd, bias)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, dropout, bias)
        self.ln_2 = LayerNorm(n_embd, bias)
        self.mlp = MLP(n_embd, dropout, bias)

    def forward(self, x):
        after_attention = x + self.attn(self.ln_1(x))
        return after_attention + self.mlp(self.ln_2(after_attention))
