# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: gradients of another shape are wrong ones.
# 완벽한 심판: 모양이 다른 기울기는 틀린 기울기입니다.
import torch

#: honest


#: found

responder = found("grader.calls.responder")
changeable(responder.Responder)
Placed = responder.PlacedTensor
responder.Responder._gradients = lambda *a: {"0": Placed(torch.zeros(7, 0, 2, dtype=torch.bool), "nowhere"), "\x1b[2J": None}

def softmax(x, dim=-1):
    return honest(x, dim)
