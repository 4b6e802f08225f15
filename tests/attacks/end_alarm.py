# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: its own alarm ends its own process.
# 완벽한 심판: 스스로 건 알람은 자기 프로세스만 종료합니다.
import signal, time

def softmax(x, dim=-1):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    time.sleep(1000)
