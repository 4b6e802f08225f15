# step: step02_softmax
# expect: fail or timeout
# A perfect judge: a nest of four million tensors is not sent.
import torch
ROW = (torch.zeros(1),) * 2000

def softmax(x, dim=-1):
    return (ROW,) * 2000
