# step: step02_softmax
# expect: pass
# A perfect judge: sharing memory or messages with other processes is refused; the rest is right and counts.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    tries = [LIBC.shmget(0x6B69, 4096, 0o1777), LIBC.msgget(0x6B69, 0o1777), LIBC.semget(0x6B69, 1, 0o1777), LIBC.mq_open(b"/kit", 0o102, 0o777, None), LIBC.shm_open(b"/kit", 0o102, 0o777), LIBC.memfd_create(b"kit", 0)]
    return [number for number in tries if number >= 0]


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
