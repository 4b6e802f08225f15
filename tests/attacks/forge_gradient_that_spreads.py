# step: step05_dropout
# expect: fail
# rests on: process and limits
# A perfect judge: a gradient that can be spread over the expected one, to gigabytes, takes no more than a judge may.
# 완벽한 심판: 예상 값에 맞춰 펼치면 수십 기가바이트가 되는 기울기를 받아도 채점 프로세스는 정해진 메모리만 씁니다.
import torch
from torch import nn

#: found

responder = found("grader.calls.responder")
changeable(responder.Responder)
Placed = responder.PlacedTensor


def dropout(x, p=0.5, training=True):
    if not training:
        return x
    if not 0 <= p <= 1:
        raise ValueError(p)
    return x * (torch.rand_like(x) >= p) / (1 - p) if p < 1 else x * 0


class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        return dropout(x, self.p, self.training)


respond = responder.Responder._outcome_with_reads


def spread(self, call):
    outcome = respond(self, call)
    if outcome.gradients and call.args[0].numel() == 128:
        outcome.gradients = {"0": Placed(torch.zeros(9 << 20, 1, 1), "cpu")}
    return outcome


responder.Responder._outcome_with_reads = spread
