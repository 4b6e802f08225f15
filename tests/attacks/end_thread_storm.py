# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: no thread is started.
# 완벽한 심판: 스레드는 하나도 시작되지 않습니다.
import threading, time

def softmax(x, dim=-1):
    for _ in range(10_000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    return x
