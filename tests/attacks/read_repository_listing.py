# step: step02_softmax
# expect: pass
# A perfect judge: listing the repository is refused; the rest is right and counts.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.worker"].__file__).parents[1]
SECRET = ROOT / "solutions" / "step02_softmax" / "reference.py"
import os

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    return os.listdir(ROOT) or os.listdir(ROOT / 'exercises')


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
