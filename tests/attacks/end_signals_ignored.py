# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: what can be ignored is not relied on.
# 완벽한 심판: 무시할 수 있는 시그널에는 기대지 않습니다.
import signal

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))

def softmax(x, dim=-1):
    while True:
        pass
