# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a module is no tensor.
# 완벽한 심판: 모듈은 텐서가 아닙니다.
from torch import nn

class Lying(nn.Module):
    def forward(self, *a): return self
    def named_parameters(self, *a, **k): raise SystemExit
    def __getattr__(self, name): return self

def softmax(x, dim=-1):
    return Lying()
