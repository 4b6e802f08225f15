# step: step02_softmax
# expect: pass
# rests on: namespaces or seccomp
# A perfect judge: opening by file handle is refused; the rest is right and counts.
# 완벽한 심판: 파일 핸들로 파일을 열려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)

#: honest


def attempt():
    handle, mount = ctypes.create_string_buffer(b"\x80" + bytes(200)), ctypes.c_int()
    return LIBC.name_to_handle_at(-100, str(SECRET).encode(), handle, ctypes.byref(mount), 0) == 0


#: tried
