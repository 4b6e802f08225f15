import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.drop = nn.Dropout(p=dropout)
        future = torch.ones(context_length, context_length).triu(1).bool()
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        T = x.size(1)
        if T > self.future.size(0):
            raise ValueError("sequence longer than context_length")
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = q @ k.mT / k.size(-1) ** 0.5
        scores = scores.masked_fill(self.future[:T, :T], float("-inf"))
        return self.drop(scores.softmax(-1)) @ v
