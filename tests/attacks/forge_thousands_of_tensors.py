# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: a nest of four million tensors is not sent.
# 완벽한 심판: 텐서 사백만 개가 겹친 구조는 전송되지 않습니다.
import torch
ROW = (torch.zeros(1),) * 2000

def softmax(x, dim=-1):
    return (ROW,) * 2000
