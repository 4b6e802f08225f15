# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: softmax raised KeyboardInterrupt.
# 완벽한 심판: softmax에서 KeyboardInterrupt가 일어났습니다.
def softmax(x, dim=-1):
    raise KeyboardInterrupt
