# step: step02_softmax
# expect: pass
# rests on: seccomp, and namespaces or landlock
# A perfect judge: sharing memory or messages with other processes is refused; the rest is right and counts.
# 완벽한 심판: 다른 프로세스와 메모리나 메시지를 나누려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
import os

#: honest


def attempt():
    made = []
    for make, undo in (
        (lambda: LIBC.shmget(0x6B69, 4096, 0o1777), lambda made: LIBC.shmctl(made, 0, None)),
        (lambda: LIBC.msgget(0x6B69, 0o1777), lambda made: LIBC.msgctl(made, 0, None)),
        (lambda: LIBC.semget(0x6B69, 1, 0o1777), lambda made: LIBC.semctl(made, 0, 0)),
        (lambda: LIBC.mq_open(b"/kit", 0o102, 0o777, None), lambda made: LIBC.mq_unlink(b"/kit")),
        (lambda: LIBC.shm_open(b"/kit", 0o102, 0o777), lambda made: LIBC.shm_unlink(b"/kit")),
        (lambda: LIBC.memfd_create(b"kit", 0), os.close),
    ):
        number = make()
        if number >= 0:
            undo(number)
            made.append(number)
    return made


#: tried
