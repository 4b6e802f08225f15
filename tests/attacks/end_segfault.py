# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the process was killed by SIGSEGV, and where.
# 완벽한 심판: 프로세스가 SIGSEGV로 종료되었고, 어디인지 보여 줍니다.
import ctypes

def softmax(x, dim=-1):
    return ctypes.string_at(0)
