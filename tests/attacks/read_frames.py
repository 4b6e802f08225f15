# step: step02_softmax
# expect: pass
# A perfect judge: finding a reference on the call stack is refused; the rest is right and counts.
import sys

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    frame, found = sys._getframe(), []
    while frame:
        found += [name for name in [*frame.f_locals, *frame.f_globals] if name in ("reference", "expected", "course", "solution")]
        frame = frame.f_back
    return found


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
