"""9단계: GPT-2처럼 질의·키·값을 한 번에"""
import math

import torch
from torch import nn

from exercises.step07_heads import merge_heads, split_heads


def fuse_qkv(query_weight, key_weight, value_weight):
    return torch.cat((query_weight, key_weight, value_weight))


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout=0.0, bias=True):
        super().__init__()
        if n_embd % n_head > 0:
            raise ValueError("n_embd가 n_head로 나누어떨어져야 합니다")
        self.c_attn = nn.Linear(n_embd, n_embd * 3, bias=bias)
        self.c_proj = nn.Linear(in_features=n_embd, out_features=n_embd, bias=bias)
        self.가중치_드롭아웃, self.출력_드롭아웃 = nn.Dropout(dropout), nn.Dropout(dropout)
        self.헤드_수, self.최대_길이 = n_head, block_size

    def forward(self, x):
        T = x.shape[1]
        if T > self.최대_길이:
            raise ValueError("토큰이 너무 많습니다")
        질의, 키, 값 = (split_heads(부분, self.헤드_수) for 부분 in torch.chunk(self.c_attn(x), 3, dim=2))
        점수 = 질의 @ 키.transpose(2, 3) / math.sqrt(질의.shape[-1])
        미래 = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(diagonal=1)
        가중치 = torch.softmax(점수.masked_fill(미래, float("-inf")), dim=3)
        문맥 = merge_heads(self.가중치_드롭아웃(가중치) @ 값)
        return self.출력_드롭아웃(self.c_proj(문맥))
