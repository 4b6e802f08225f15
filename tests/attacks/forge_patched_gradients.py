# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an answer without the gradients that were asked for is a failed check, not a fault of the grader.
# 완벽한 심판: 요청한 기울기가 없는 답은 실패한 검사이며, 채점기의 잘못이 아닙니다.
#: honest


#: found

responder = found("grader.calls.responder")
changeable(responder.Responder)
responder.Responder._gradients = lambda *a: {}

def softmax(x, dim=-1):
    return honest(x, dim)
