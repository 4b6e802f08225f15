# step: step02_softmax
# expect: fail
# A perfect judge: what is patched in the learner's process stays there.
import torch
torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None
torch.Tensor.__eq__ = lambda self, other: True
torch.Tensor.allclose = torch.Tensor.equal = lambda *a, **k: True

def softmax(x, dim=-1):
    return x
