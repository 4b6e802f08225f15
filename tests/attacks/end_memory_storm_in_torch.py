# step: step02_softmax
# expect: fail
# A perfect judge: torch's own error: it can't allocate.
import torch

def softmax(x, dim=-1):
    return torch.ones(1 << 34).sum() + x
