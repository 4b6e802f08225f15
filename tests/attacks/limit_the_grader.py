# step: step02_softmax
# expect: pass
# A perfect judge: setting another process's limits is refused; the rest is right and counts.
import os, resource

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    for name in ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS"):
        kind = getattr(resource, name)
        resource.prlimit(os.getppid(), kind, resource.prlimit(os.getppid(), kind))
    return True


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
