# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock or seccomp
# A perfect judge: becoming another program is refused; the rest is right and counts.
# 완벽한 심판: 다른 프로그램으로 바뀌려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.sandbox.worker"].__file__).parents[2]
SECRET = ROOT / "solutions" / "core" / "step02_softmax" / "reference.py"
import os

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    os.execv("/bin/cat", ["cat", str(SECRET)])


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
