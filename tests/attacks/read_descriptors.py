# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: finding more descriptors than its own is refused; the rest is right and counts.
# 완벽한 심판: 자기 것이 아닌 디스크립터를 찾으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os, stat

#: honest


def attempt():
    found = {}
    for number in range(3, 64):
        try:
            found[number] = os.fstat(number)
        except OSError:
            continue
    # its channel and the pipe of its fault handler: a socket and a pipe, both its own
    kinds = sorted(stat.S_IFMT(status.st_mode) for status in found.values())
    return [] if kinds == sorted([stat.S_IFSOCK, stat.S_IFIFO]) else kinds


#: tried
