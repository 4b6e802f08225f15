# step: step02_softmax
# expect: fail
# A perfect judge: a list of a million tensors is not sent.
import torch
MANY = [torch.zeros(1)] * 1_000_000

def softmax(x, dim=-1):
    return MANY
