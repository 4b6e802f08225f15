# step: step02_softmax
# expect: pass
# A perfect judge: removing or moving anything outside is refused; the rest is right and counts.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.worker"].__file__).parents[1]
SECRET = ROOT / "solutions" / "step02_softmax" / "reference.py"
import os

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    for change in (lambda: os.unlink(SECRET), lambda: os.rename(SECRET, "mine"), lambda: os.rmdir("/tmp"), lambda: os.mkdir("/tmp/mine"), lambda: os.mkfifo("mine"), lambda: os.rmdir(os.getcwd()), lambda: os.rename(os.getcwd(), "/tmp/mine"), lambda: os.mknod("mine")):
        try:
            change()
            return True
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
