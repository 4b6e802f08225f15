# step: step02_softmax
# expect: pass
# rests on: seccomp, and namespaces or landlock
# A perfect judge: removing, moving or making anything outside (it would fail for another reason) is refused; the rest is right and counts.
# 완벽한 심판: 자기 폴더 밖에서 (다른 이유로도 실패할 것을) 지우거나 옮기거나 만들려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.sandbox.worker"].__file__).parents[2]
SECRET = ROOT / "solutions" / "core" / "step02_softmax" / "reference.py"
import errno, os

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    for change, allowed in (
        (lambda: os.rmdir(ROOT), errno.ENOTEMPTY),
        (lambda: os.rmdir(ROOT / "solutions"), errno.ENOTEMPTY),
        (lambda: os.rename(ROOT / "grader", ROOT / "solutions"), errno.ENOTEMPTY),
        (lambda: os.rename("/tmp", "/usr"), errno.ENOTEMPTY),
        (lambda: os.rmdir("/tmp"), errno.ENOTEMPTY),
        (lambda: os.rmdir(os.path.dirname(os.getcwd())), errno.ENOTEMPTY),
    ):
        try:
            change()
        except OSError as error:
            if error.errno == allowed:
                return str(error)
    for make in (lambda: os.mkfifo("mine"), lambda: os.mknod("mine"), lambda: os.symlink("/", "mine"), lambda: os.link("notes", "mine")):
        try:
            open("notes", "w").close()
            make()
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
