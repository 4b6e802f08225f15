"""11단계: GPT 블록"""
import torch
import torch.nn.functional as F
from torch import nn

from exercises.step09_fused_qkv import CausalSelfAttention


class LayerNorm(nn.Module):
    def __init__(self, n_embd, bias=True, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.full((n_embd,), 1.0))
        self.register_parameter("bias", nn.Parameter(torch.zeros(n_embd)) if bias else None)
        self.eps = eps

    def forward(self, x):
        넓은_x = x if x.dtype == torch.float64 else x.float()
        분산, 평균 = torch.var_mean(넓은_x, dim=-1, correction=0, keepdim=True)
        결과 = self.weight * ((넓은_x - 평균) / (분산 + self.eps) ** 0.5).to(x.dtype)
        if self.bias is not None:
            결과 = 결과 + self.bias
        return 결과


def gelu(x):
    계수 = (2 / torch.pi) ** 0.5
    return 0.5 * x * (1 + torch.tanh(계수 * x * (1 + 0.044715 * x**2)))


class MLP(nn.Module):
    def __init__(self, n_embd, dropout=0.0, bias=True):
        super().__init__()
        self.p = dropout
        self.c_fc = nn.Linear(n_embd, 4 * n_embd, bias)
        self.c_proj = nn.Linear(4 * n_embd, n_embd, bias)

    def forward(self, x):
        # 드롭아웃은 맨 끝에 한 번
        return F.dropout(self.c_proj(gelu(self.c_fc(x))), p=self.p, training=self.training)


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout=0.0, bias=True):
        super().__init__()
        self.ln_1, self.ln_2 = LayerNorm(n_embd, bias), LayerNorm(n_embd, bias)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, dropout, bias)
        self.mlp = MLP(n_embd, dropout, bias)

    def forward(self, x):
        # 잔차 연결 두 번
        x = self.attn(self.ln_1(x)) + x
        return self.mlp(self.ln_2(x)) + x
