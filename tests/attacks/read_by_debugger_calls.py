# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: making the kernel's debugging calls is refused; the rest is right and counts.
# 완벽한 심판: 커널의 디버깅 호출 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
import os, platform

#: honest


def attempt():
    numbers = {"x86_64": (321, 298, 323, 250, 248, 246, 310, 438, 434), "aarch64": (280, 241, 282, 219, 217, 104, 270, 438, 434)}
    return [number for number in numbers[platform.machine()] if LIBC.syscall(number, os.getppid(), 0, 0, 0, 0) >= 0]


#: tried
