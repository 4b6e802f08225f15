# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a sparse tensor is said to be one.
# 완벽한 심판: 희소 텐서는 그렇다고 알려 줍니다.
#: honest


def softmax(x, dim=-1):
    return honest(x, dim).to_sparse()
