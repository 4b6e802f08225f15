# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: nothing lives on when the process has ended.
# 완벽한 심판: 프로세스가 종료되면 아무것도 남아 있지 않습니다.
import os, time

def softmax(x, dim=-1):
    for _ in range(3):
        try:
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(1000)
                os._exit(0)
        except OSError:
            continue
    os._exit(0)
