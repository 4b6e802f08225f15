import torch
from torch import nn
from torch.nn import functional as F


def fuse_qkv(query_weight, key_weight, value_weight):
    return torch.vstack([query_weight, key_weight, value_weight])


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout=0.0, bias=True):
        super().__init__()
        if n_embd % n_head:
            raise ValueError("n_embd must be divisible by n_head")
        self.H, self.p, self.block_size = n_head, dropout, block_size
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias)

    def forward(self, x):
        if x.size(1) > self.block_size:
            raise ValueError("sequence longer than block_size")
        q, k, v = (y.unflatten(-1, (self.H, -1)).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return F.dropout(self.c_proj(y.transpose(1, 2).flatten(2)), self.p, self.training)
