# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: gaining privileges is refused; the rest is right and counts.
# 완벽한 심판: 권한을 얻으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
import os

#: honest


def attempt():
    for change in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0]), lambda: os.chroot("/")):
        try:
            change()
            return True
        except OSError:
            continue
    return LIBC.prctl(4, 1, 0, 0, 0) == 0 or LIBC.prctl(1, 0, 0, 0, 0) == 0 or LIBC.prctl(38, 0, 0, 0, 0) == 0


#: tried
