# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a tuple is no tensor, whatever it holds.
# 완벽한 심판: 무엇을 담았든 튜플은 텐서가 아닙니다.
#: honest


def softmax(x, dim=-1):
    return ((honest(x, dim),),)
