# step: step02_softmax
# expect: pass
# rests on: namespaces or seccomp
# A perfect judge: changing what is mounted where is refused; the rest is right and counts.
# 완벽한 심판: 마운트를 바꾸려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)

#: honest


def attempt():
    tries = [LIBC.unshare(0x10000000), LIBC.unshare(0x00020000), LIBC.mount(b"/", b".", None, 4096, None), LIBC.chroot(b"."), LIBC.setns(0, 0), LIBC.pivot_root(b".", b".") if hasattr(LIBC, "pivot_root") else -1]
    return [number for number in tries if number == 0]


#: tried
