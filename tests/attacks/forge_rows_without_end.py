# step: step03_attention
# expect: fail
# rests on: process and limits
# A perfect judge: three million rows without an element are told by their shape, and not one by one.
# 완벽한 심판: 원소가 하나도 없는 3백만 개의 행은 하나씩이 아니라 모양으로 알립니다.
import torch

def attention(query, key, value, mask=None):
    return torch.empty(3_000_000, 0)


class SelfAttention(torch.nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()

    def forward(self, x):
        return torch.empty(3_000_000, 0)
