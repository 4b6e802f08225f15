# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a long message is cut.
# 완벽한 심판: 긴 메시지는 잘라 냅니다.
def softmax(x, dim=-1):
    raise ValueError("x" * (100 << 20))
