"""3단계: 어텐션"""
import math

import torch
from torch import nn


def attention(query, key, value, mask=None):
    # 점수 → 가중치 → 값의 평균
    점수 = torch.einsum("...id,...jd->...ij", query, key) / math.sqrt(query.shape[-1])
    if mask is not None:
        점수 = 점수.masked_fill(mask.logical_not(), float("-inf"))
    가중치 = torch.nn.functional.softmax(점수, dim=-1)
    return torch.einsum("...ij,...jd->...id", 가중치, value), 가중치


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        # 세 개의 선형층: 질의, 키, 값
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Linear(d_in, d_out, bias=qkv_bias))

    def forward(self, x):
        문맥, _ = attention(query=self.W_query(x), key=self.W_key(x), value=self.W_value(x))
        return 문맥
