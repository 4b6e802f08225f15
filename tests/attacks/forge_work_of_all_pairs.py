# step: step26_linear
# expect: fail
# rests on: process and limits
# A perfect judge: who multiplies all pairs of tokens, a few at a time, has not done the work in linear time.
# 완벽한 심판: 모든 토큰 쌍을 조금씩 나누어 곱했다면 선형 시간에 한 것이 아닙니다.
import torch
from torch.nn.functional import elu


def feature_map(x):
    return elu(x) + 1


def linear_attention(query, key, value, is_causal=False):
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError
    q, k, rows = feature_map(query), feature_map(key), []
    for i in range(0, q.shape[-2], 16):
        weights = q[..., i : i + 16, :] @ k.transpose(-2, -1)
        if is_causal:
            steps = torch.arange(k.shape[-2], device=q.device)
            weights = weights * (steps <= torch.arange(i, i + weights.shape[-2], device=q.device)[:, None])
        rows.append(weights @ value / weights.sum(-1, keepdim=True))
    return torch.cat(rows, -2)
