# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: complex numbers are no weights.
# 완벽한 심판: 복소수는 가중치가 아닙니다.
#: honest


def softmax(x, dim=-1):
    return honest(x, dim) + 0j
