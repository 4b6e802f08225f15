# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: naming another process the owner of a descriptor is refused; the rest is right and counts.
# 완벽한 심판: 디스크립터의 소유자로 다른 프로세스를 지정하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import fcntl, os, struct

#: honest


def attempt():
    for request in ((fcntl.F_SETOWN, os.getppid()), (15, struct.pack("ii", 1, os.getppid())), (10, 9)):
        for descriptor in range(8):
            try:
                fcntl.fcntl(descriptor, *request)
                return True
            except OSError:
                continue
    for request in (0x8901, 0x8902):
        for descriptor in range(8):
            try:
                fcntl.ioctl(descriptor, request, struct.pack("i", os.getppid()))
                return True
            except OSError:
                continue


#: tried
