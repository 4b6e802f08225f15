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
    조각들, 시작 = [], 0
    while 시작 < 질의_수:
        q = query[:, :, 시작 : 시작 + block_size]
        분모, 분자 = 0, 0
        for 자리 in range(0, 키_수, block_size):
            k, v = key[:, :, 자리 : 자리 + block_size], value[:, :, 자리 : 자리 + block_size]
            지수 = torch.exp(q @ k.transpose(2, 3) * 배율)
            분모 = 분모 + 지수.sum(dim=3, keepdim=True)
            분자 = 분자 + 지수 @ v
        조각들.append(분자 / 분모)
    return torch.cat(조각들, dim=2).to(원래_dtype)
