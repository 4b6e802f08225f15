# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: nan is equal to nothing.
# 완벽한 심판: nan은 무엇과도 같지 않습니다.
def softmax(x, dim=-1):
    return x * float('nan')
