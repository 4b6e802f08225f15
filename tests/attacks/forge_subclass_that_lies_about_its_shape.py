# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what a subclass says of its shape is not relied on.
# 완벽한 심판: 하위 클래스가 말하는 모양에는 기대지 않습니다.
import torch
class Lying(torch.Tensor):
    shape = property(lambda self: torch.Size([3]))
    def numel(self): return 3
    def size(self, *a): return torch.Size([3])
    def __torch_function__(*a, **k): raise SystemError("no")

def softmax(x, dim=-1):
    return torch.zeros(10**6).as_subclass(Lying)
