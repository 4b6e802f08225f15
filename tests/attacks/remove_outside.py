# step: step02_softmax
# expect: pass
# rests on: seccomp, and namespaces or landlock
# A perfect judge: removing, moving or making anything outside (it would fail for another reason) is refused; the rest is right and counts.
# 완벽한 심판: 자기 폴더 밖에서 (다른 이유로도 실패할 것을) 지우거나 옮기거나 만들려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret
import errno, os

#: honest


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


#: tried
