# step: step02_softmax
# expect: pass
# rests on: seccomp or namespaces
# A perfect judge: reserving space on the disk without writing is refused; the rest is right and counts.
# 완벽한 심판: 쓰지 않고 디스크 공간만 예약하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os

#: honest


def attempt():
    """The first gigabyte of what would be any number of them, faster than anybody looks."""
    for number in range(64):
        file = os.open(f"reserved{number}", os.O_CREAT | os.O_WRONLY)
        os.posix_fallocate(file, 0, 16 << 20)
        os.close(file)
    return "a gigabyte"


#: tried
