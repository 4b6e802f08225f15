# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: nobody else's function is put at the keys of torch's dispatcher at which built-ins are looked for.
# 완벽한 심판: 내장 함수를 지켜보는 torch 디스패처의 키에는 다른 함수를 등록할 수 없습니다.
import torch

ours = torch.library.Library("aten", "IMPL")
for op in ("softmax.int", "_softmax", "_softmax_backward_data"):
    for key in ("TESTING_ONLY_GenericWrapper", "Fake"):
        ours.impl(op, torch.library.fallthrough_kernel, key)


def softmax(x, dim=-1):
    return torch.softmax(x, dim)
