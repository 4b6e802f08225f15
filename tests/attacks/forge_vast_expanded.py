# step: step02_softmax
# expect: fail
# A perfect judge: a tensor of 10**12 elements in 4 bytes is too big, and is never made.
import torch

def softmax(x, dim=-1):
    return torch.zeros(1).expand(10**6, 10**6)
