# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a tensor without values has no weights.
# 완벽한 심판: 값이 없는 텐서에는 가중치가 없습니다.
def softmax(x, dim=-1):
    return x.to('meta')
