# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: tuples in tuples are taken to a bounded depth.
# 완벽한 심판: 튜플 속의 튜플은 정해진 깊이까지만 받습니다.
def softmax(x, dim=-1):
    value = x
    for _ in range(200_000):
        value = (value,)
    return value
