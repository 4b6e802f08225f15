# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a list of a million tensors is not sent.
# 완벽한 심판: 텐서 백만 개의 리스트는 전송되지 않습니다.
import torch
MANY = [torch.zeros(1)] * 1_000_000

def softmax(x, dim=-1):
    return MANY
