# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: no answer within the deadline.
# 완벽한 심판: 제한 시간 안에 답이 없습니다.
import threading

def softmax(x, dim=-1):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
