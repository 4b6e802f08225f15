# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: no weights are not enough.
# 완벽한 심판: 빈 텐서는 가중치가 되지 못합니다.
def softmax(x, dim=-1):
    return x[:0]
