# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: it can say that it left its input alone; wrong values stay wrong.
# 완벽한 심판: 입력을 건드리지 않았다고 말할 수는 있어도, 틀린 값은 여전히 틀립니다.
#: found

responder = found("grader.calls.responder")
changeable(responder.Inputs)
responder.Inputs.modified = lambda self: []

def softmax(x, dim=-1):
    return x.zero_()
