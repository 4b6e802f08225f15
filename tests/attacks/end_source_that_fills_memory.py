# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a constant of many gigabytes is not folded into the grader.
# 완벽한 심판: 몇 기가바이트짜리 상수가 채점기 안에서 계산되지 않습니다.
def softmax(x, dim=-1):
    return x + len("a" * 10**11)
