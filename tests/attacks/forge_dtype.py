# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the dtype must be that of the scores.
# 완벽한 심판: dtype은 스코어의 dtype과 같아야 합니다.
#: honest


def softmax(x, dim=-1):
    return honest(x.double(), dim)
