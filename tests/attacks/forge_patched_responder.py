# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an empty outcome earns nothing, and breaks nothing.
# 완벽한 심판: 빈 결과는 점수를 얻지 못하고, 아무것도 망가뜨리지 않습니다.
#: found

responder = found("grader.calls.responder")
changeable(responder.Responder)
Outcome = responder.Outcome
responder.Responder.respond = lambda self, call: Outcome(value=True)

def softmax(x, dim=-1):
    return x
