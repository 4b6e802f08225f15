# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: expected a tensor, got None.
# 완벽한 심판: 텐서가 와야 하는데 None이 왔습니다.
def softmax(x, dim=-1):
    return None
