# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: of a generator only so much is taken.
# 완벽한 심판: 제너레이터에서는 정해진 개수까지만 꺼냅니다.
def softmax(x, dim=-1):
    while True:
        yield x
