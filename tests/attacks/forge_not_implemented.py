# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: returning NotImplemented or Ellipsis is no tensor.
# 완벽한 심판: NotImplemented나 Ellipsis는 텐서가 아닙니다.
def softmax(x, dim=-1):
    return NotImplemented
