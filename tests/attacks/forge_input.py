# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the scores are not the weights.
# 완벽한 심판: 스코어를 그대로 돌려준 것은 가중치가 아닙니다.
def softmax(x, dim=-1):
    return x
