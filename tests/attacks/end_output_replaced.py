# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a standard output that fails or lies is nobody else's matter.
# 완벽한 심판: 표준 출력이 실패하거나 거짓말을 해도 다른 프로세스에는 영향이 없습니다.
import sys

class Stream:
    def write(self, text): raise SystemError
    def flush(self): raise ValueError("no")

sys.stdout = sys.stderr = sys.__stdout__ = Stream()

def softmax(x, dim=-1):
    return x
