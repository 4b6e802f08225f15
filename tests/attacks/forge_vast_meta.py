# step: step02_softmax
# expect: fail
# A perfect judge: shapes beyond any memory are only compared.
import torch

def softmax(x, dim=-1):
    return torch.empty(2**20, 2**20, 2**20, device='meta')
