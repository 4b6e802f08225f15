"""10단계: 블록 단위의 정확한 어텐션(flash attention)"""
import torch
import torch.nn.functional as F


def attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element=4):
    행렬_하나 = num_tokens * num_tokens
    return 행렬_하나 * batch * num_heads * bytes_per_element


def sdpa(query, key, value, dropout_p=0.0, training=True):
    if not training:
        dropout_p = 0.0
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=dropout_p)


def flash_attention(query, key, value, is_causal=False, block_size=64):
    질의_수, 키_수 = query.shape[2], key.shape[2]
    if is_causal and 질의_수 != 키_수:
        raise ValueError("is_causal이면 질의와 키의 수가 같아야 합니다")
    원래_dtype = query.dtype
    if 원래_dtype in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
    배율 = query.shape[3] ** -0.5
    조각들 = []
    for 질의_블록, 시작 in zip(query.split(block_size, dim=2), range(0, 질의_수, block_size)):
        최댓값 = 분모 = 분자 = None
        for 키_블록, 값_블록, 자리 in zip(
            key.split(block_size, dim=2), value.split(block_size, dim=2), range(0, 키_수, block_size)
        ):
            if is_causal and 자리 > 시작 + 질의_블록.shape[2] - 1:
                break
            점수 = 질의_블록 @ 키_블록.transpose(2, 3) * 배율
            if is_causal:
                행 = 시작 + torch.arange(점수.shape[2], device=점수.device).view(-1, 1)
                열 = 자리 + torch.arange(점수.shape[3], device=점수.device).view(1, -1)
                점수 = 점수.masked_fill(열 > 행, float("-inf"))
            이번_최댓값 = 점수.amax(dim=3, keepdim=True)
            if 최댓값 is None:
                지수 = torch.exp(점수 - 이번_최댓값)
                최댓값, 분모, 분자 = 이번_최댓값, 지수.sum(dim=3, keepdim=True), 지수 @ 값_블록
                continue
            새_최댓값 = torch.maximum(최댓값, 이번_최댓값)
            보정 = torch.exp(최댓값 - 새_최댓값)
            지수 = torch.exp(점수 - 새_최댓값)
            분모 = 분모 * 보정 + 지수.sum(dim=3, keepdim=True)
            분자 = 분자 * 보정 + 지수 @ 값_블록
            최댓값 = 새_최댓값
        조각들.append(분자 / 분모)
    return torch.cat(조각들, dim=2).to(원래_dtype)
