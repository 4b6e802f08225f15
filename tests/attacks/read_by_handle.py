# step: step02_softmax
# expect: pass
# rests on: namespaces or seccomp
# A perfect judge: opening by file handle is refused; the rest is right and counts.
# 완벽한 심판: 파일 핸들로 파일을 열려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.sandbox.worker"].__file__).parents[2]
SECRET = ROOT / "solutions" / "core" / "step02_softmax" / "reference.py"

import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    handle, mount = ctypes.create_string_buffer(b"\x80" + bytes(200)), ctypes.c_int()
    return LIBC.name_to_handle_at(-100, str(SECRET).encode(), handle, ctypes.byref(mount), 0) == 0


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
