# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: integers are no weights.
# 완벽한 심판: 정수는 가중치가 아닙니다.
def softmax(x, dim=-1):
    return x.long()
