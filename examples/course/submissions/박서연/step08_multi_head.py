"""8단계: 멀티헤드 어텐션"""
import math

import torch
from torch import nn

from exercises.step06_causal_attention import CausalAttention
from exercises.step07_heads import merge_heads, split_heads


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        헤드들 = [CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for 번호 in range(num_heads)]
        self.heads = nn.ModuleList(헤드들)

    def forward(self, x):
        return torch.cat(tuple(head(x) for head in self.heads), dim=2)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads > 0:
            raise ValueError("d_out이 num_heads로 나누어떨어져야 합니다")
        self.헤드_수, self.최대_길이 = num_heads, context_length
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Linear(d_in, d_out, bias=qkv_bias))
        self.out_proj = nn.Linear(d_out, d_out, bias=True)
        self.드롭아웃 = nn.Dropout(p=dropout)

    def forward(self, x):
        T = x.shape[1]
        if T > self.최대_길이:
            raise ValueError("토큰이 너무 많습니다")
        질의, 키, 값 = (split_heads(층(x), self.헤드_수) for 층 in (self.W_query, self.W_key, self.W_value))
        점수 = 질의 @ 키.transpose(2, 3) / math.sqrt(질의.shape[-1])
        미래 = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(diagonal=1)
        가중치 = torch.softmax(점수.masked_fill(미래, float("-inf")), dim=3)
        return self.out_proj(merge_heads(self.드롭아웃(가중치) @ 값))
