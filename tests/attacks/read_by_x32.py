# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: the x32 way of making a call is refused; the rest is right and counts.
# 완벽한 심판: x32 방식의 시스템 호출 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
import platform

#: honest


def attempt():
    if platform.machine() != "x86_64":
        return False
    return LIBC.syscall(0x40000000 | 2, str(SECRET).encode(), 0) >= 0


#: tried
