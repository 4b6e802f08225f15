# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the line that Python can't read.
# 완벽한 심판: 파이썬이 읽지 못하는 줄을 보여 줍니다.
def softmax(x, dim=-1)
    return x
