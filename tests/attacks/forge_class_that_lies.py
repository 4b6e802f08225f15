# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an object that calls itself a Tensor is none.
# 완벽한 심판: 스스로 Tensor라고 하는 객체는 텐서가 아닙니다.
import torch
class Lying:
    __class__ = torch.Tensor
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self

def softmax(x, dim=-1):
    return Lying()
