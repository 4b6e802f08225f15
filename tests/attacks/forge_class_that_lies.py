# step: step02_softmax
# expect: fail
# A perfect judge: an object that calls itself a Tensor is none.
import torch
class Lying:
    __class__ = torch.Tensor
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self

def softmax(x, dim=-1):
    return Lying()
