# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: starting a thread is refused; the rest is right and counts.
# 완벽한 심판: 스레드를 시작하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import threading

#: honest


def attempt():
    thread = threading.Thread(target=print, daemon=True)
    thread.start()
    return True


#: tried
