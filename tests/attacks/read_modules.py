# step: step02_softmax
# expect: pass
# A perfect judge: finding a reference among the modules is refused; the rest is right and counts.
import sys

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    return [name for name in sys.modules if name.startswith(("solutions", "grader.course", "grader.verdict", "grader.compare", "pytest"))]


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
