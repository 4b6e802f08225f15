# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: an alarm that was set at the top level is over with it.
# 완벽한 심판: 최상위에서 건 알람은 최상위가 끝나면 함께 끝납니다.
import signal

#: honest


def softmax(x, dim=-1):
    return honest(x, dim)


signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
while True:
    pass
