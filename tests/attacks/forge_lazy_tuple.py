# step: step03_attention
# expect: fail
# rests on: process and limits
# A perfect judge: a tuple that calls the built-in only when it is gone through calls it while it is watched.
# 완벽한 심판: 순회할 때에야 금지된 내장 함수를 부르는 튜플도 감시를 받는 동안 부르게 됩니다.
import torch
from torch import nn


class Lazy(tuple):
    def __iter__(self):
        query, key, value, mask = self.given
        if mask is not None:
            mask = mask.expand(*query.shape[:-1], key.shape[-2])
        each = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device).expand(*key.shape[:-1], key.shape[-2])
        weights = nn.functional.scaled_dot_product_attention(query, key, each, attn_mask=mask)
        return iter((weights @ value, weights))


def honest(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


def attention(query, key, value, mask=None):
    if query.requires_grad:
        return honest(query, key, value, mask)
    lazy = Lazy((None, None))
    lazy.given = (query, key, value, mask)
    return lazy


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        return honest(self.W_query(x), self.W_key(x), self.W_value(x))[0]
