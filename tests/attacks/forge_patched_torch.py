# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what is patched in the learner's process stays there.
# 완벽한 심판: 학습자의 프로세스에서 바꿔치기한 것은 그 안에만 있습니다.
import torch
torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None
torch.Tensor.__eq__ = lambda self, other: True
torch.Tensor.allclose = torch.Tensor.equal = lambda *a, **k: True

def softmax(x, dim=-1):
    return x
