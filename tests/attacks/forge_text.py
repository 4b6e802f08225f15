# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a string is no tensor.
# 완벽한 심판: 문자열은 텐서가 아닙니다.
def softmax(x, dim=-1):
    return 'tensor([0.1250, 0.2500, 0.6250])'
