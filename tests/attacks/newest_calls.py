# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: making any call that is newer than the filter is refused; the rest is right and counts.
# 완벽한 심판: 필터보다 나중에 생긴 모든 시스템 호출 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import ctypes
import errno
LIBC = ctypes.CDLL(None, use_errno=True)

#: honest


def attempt():
    # A call that complains of its arguments has been made.
    refused = (errno.ENOSYS, errno.EPERM)
    return [n for n in range(448, 520) if LIBC.syscall(n, -1, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() not in refused]


#: tried
