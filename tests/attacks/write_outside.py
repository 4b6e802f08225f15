# step: step02_softmax
# expect: pass
# A perfect judge: writing anywhere but into its own folder is refused; the rest is right and counts.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.worker"].__file__).parents[1]
SECRET = ROOT / "solutions" / "step02_softmax" / "reference.py"
import torch

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    for place in (ROOT / "mine", SECRET, pathlib.Path("/tmp/mine"), pathlib.Path("/dev/shm/mine"), pathlib.Path("../mine"), pathlib.Path("/var/tmp/mine"), pathlib.Path(torch.__file__), pathlib.Path(torch.__file__).parent / "mine.py"):
        try:
            with open(place, "ab"):
                return place
        except OSError:
            continue


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
