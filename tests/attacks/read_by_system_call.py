# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: opening the reference by the C library is refused; the rest is right and counts.
# 완벽한 심판: C 라이브러리로 레퍼런스를 열려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
import os

#: honest


def attempt():
    path = str(SECRET).encode()
    how = ctypes.create_string_buffer(24)
    tries = [LIBC.open(path, 0), LIBC.openat(-100, path, 0), LIBC.syscall(437, -100, path, how, 24), LIBC.open64(path, 0x200000)]
    return [descriptor for descriptor in tries if descriptor >= 0 and os.read(descriptor, 1)]


#: tried
