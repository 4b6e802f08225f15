# step: step25_window
# expect: fail
# rests on: process and limits
# A perfect judge: pairs outside of the window that are multiplied and then masked cost what the window saves.
# 완벽한 심판: 창 밖의 쌍을 곱한 뒤 가리면 창이 아끼는 것을 그대로 치릅니다.
import torch


def window_mask(num_tokens, window, is_causal=True, num_global=0, device=None):
    i = torch.arange(num_tokens, device=device)
    mask = ((i[:, None] - i).abs() < window) | (i[:, None] < num_global) | (i < num_global)
    return mask & (i <= i[:, None]) if is_causal else mask


def window_attention(query, key, value, window, is_causal=True, num_global=0):
    T = query.shape[-2]
    if window < 1 or key.shape[-2] != T:
        raise ValueError
    rows, j = [], torch.arange(T, device=query.device)
    for start in range(0, T, 4):
        i = torch.arange(start, min(start + 4, T), device=query.device)[:, None]
        scores = query[..., start : start + 4, :] @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        mask = ((i - j).abs() < window) | (i < num_global) | (j < num_global)
        mask = mask & (j <= i) if is_causal else mask
        rows.append(scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value)
    return torch.cat(rows, -2)
