"""6단계: 드롭아웃이 있는 코잘 어텐션"""
import math

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.최대_길이 = context_length
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Linear(d_in, d_out, bias=qkv_bias))
        self.드롭아웃 = nn.Dropout(p=dropout)

    def forward(self, x):
        B, T, _ = x.shape
        if T > self.최대_길이:
            raise ValueError(f"토큰이 너무 많습니다: {T} > {self.최대_길이}")
        질의, 키, 값 = self.W_query(x), self.W_key(x), self.W_value(x)
        # 마스크는 그때그때 x의 장치에서 만든다
        미래 = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(diagonal=1)
        점수 = torch.bmm(질의, 키.transpose(1, 2)) / math.sqrt(키.shape[-1])
        점수 = 점수.masked_fill(미래, float("-inf"))
        가중치 = self.드롭아웃(torch.softmax(점수, dim=2))
        return torch.bmm(가중치, 값)
