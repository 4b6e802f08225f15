# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: a ring of system calls is refused; the rest is right and counts.
# 완벽한 심판: io_uring으로 시스템 호출을 하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)

#: honest


def attempt():
    return LIBC.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0


#: tried
