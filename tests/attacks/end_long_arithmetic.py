# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: one long operation is ended in its midst.
# 완벽한 심판: 오래 걸리는 연산 하나도 도중에 끝냅니다.
def softmax(x, dim=-1):
    return str(3 ** (10**8)) and x
