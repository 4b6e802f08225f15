# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: forking is refused; the rest is right and counts.
# 완벽한 심판: 포크 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os

#: honest


def attempt():
    return os.fork() >= 0 and os._exit(0)


#: tried
