# step: step04_causal_mask
# expect: fail
# rests on: process and limits
# A perfect judge: a later step that was not handed in is not there, and its reference never stands beside the code.
# 완벽한 심판: 제출하지 않은 뒤 단계는 없는 것이고, 그 레퍼런스를 코드 옆에 두는 일도 없습니다.
from exercises.step25_window import window_mask


def causal_mask(num_tokens, device=None):
    return window_mask(num_tokens, num_tokens + 1, device=device)
