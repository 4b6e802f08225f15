# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: torch's C functions can't be had a second time, without what counts.
# 완벽한 심판: 세는 장치가 없는 torch의 C 함수를 다시 얻을 수 없습니다.
import _imp
import importlib

import torch

for attempt in (lambda: _imp.create_dynamic(torch._C.__spec__), lambda: importlib.reload(torch._C)):
    try:
        attempt()
    except ImportError:
        pass


def softmax(x, dim=-1):
    for place in ("TESTING_ONLY_GenericWrapper", "Fake"):
        torch._C._dispatch_tls_set_dispatch_key_included(torch._C._dispatch_key_parse(place), False)
    return torch.softmax(x, dim)
