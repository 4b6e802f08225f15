# step: step02_softmax
# expect: pass
# A perfect judge: a ring of system calls is refused; the rest is right and counts.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    return LIBC.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
