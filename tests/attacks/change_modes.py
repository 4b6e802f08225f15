# step: step02_softmax
# expect: pass
# A perfect judge: changing modes, owners, times and attributes of files is refused; the rest is right and counts.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.worker"].__file__).parents[1]
SECRET = ROOT / "solutions" / "step02_softmax" / "reference.py"
import os
import torch

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    for place in (SECRET, ROOT, "/tmp", torch.__file__):
        for change in (lambda: os.chmod(place, 0), lambda: os.chown(place, 0, 0), lambda: os.utime(place), lambda: os.setxattr(place, "user.kit", b"1"), lambda: os.getxattr(place, "user.kit") or True, lambda: os.truncate(place, 0), lambda: os.fchmod(os.open(place, os.O_RDONLY), 0)):
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
