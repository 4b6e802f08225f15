# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a list that holds itself is taken to a bounded depth.
# 완벽한 심판: 자기 자신을 담은 리스트는 정해진 깊이까지만 받습니다.
def softmax(x, dim=-1):
    value = [x]
    value.append(value)
    return value
