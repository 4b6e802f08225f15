# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: one number is not as many as there are scores.
# 완벽한 심판: 수 하나는 점수의 개수만큼이 아닙니다.
def softmax(x, dim=-1):
    return x.sum()
