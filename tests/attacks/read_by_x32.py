# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: the x32 way of making a call is refused; the rest is right and counts.
# 완벽한 심판: x32 방식의 시스템 호출 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.sandbox.worker"].__file__).parents[2]
SECRET = ROOT / "solutions" / "core" / "step02_softmax" / "reference.py"

import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
import platform

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    if platform.machine() != "x86_64":
        return False
    return LIBC.syscall(0x40000000 | 2, str(SECRET).encode(), 0) >= 0


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
