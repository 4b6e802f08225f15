import torch
from torch import nn

from exercises.step06_causal_attention import CausalAttention


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(CausalAttention(d_in, d_out, context_length, dropout, qkv_bias))

    def forward(self, x):
        return torch.cat([h(x) for h in self.heads], -1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError("d_out must be divisible by num_heads")
        self.H = num_heads
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out, True)
        self.drop = nn.Dropout(p=dropout)
        future = torch.ones(context_length, context_length).triu(1).bool()
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        B, T, _ = x.shape
        if T > self.future.size(0):
            raise ValueError("sequence longer than context_length")

        def heads(y):
            return y.unflatten(-1, (self.H, -1)).transpose(1, 2)

        q, k, v = heads(self.W_query(x)), heads(self.W_key(x)), heads(self.W_value(x))
        scores = q @ k.mT / k.size(-1) ** 0.5
        scores = scores.masked_fill(self.future[:T, :T], float("-inf"))
        context = self.drop(scores.softmax(-1)) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2))
