"""7단계: 헤드로 나누고 다시 합치기"""


def split_heads(x, num_heads):
    B, T, D = x.shape
    if D % num_heads != 0:
        raise ValueError(f"너비 {D}은(는) 헤드 {num_heads}개로 나누어떨어지지 않습니다")
    # (B, T, D) → (B, T, H, d) → (B, H, T, d)
    return x.reshape(B, T, num_heads, -1).permute(0, 2, 1, 3)


def merge_heads(x):
    B, H, T, d = x.shape
    return x.permute(0, 2, 1, 3).contiguous().view(B, T, H * d)
