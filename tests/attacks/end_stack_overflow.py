# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: recursion ends in the process that does it.
# 완벽한 심판: 재귀는 그 프로세스 안에서 끝납니다.
import sys

sys.setrecursionlimit(10**9)

def softmax(x, dim=-1):
    return eval("(" * 50) if False else (lambda f: f(f))(lambda f: repr(type("T", (), {"__repr__": lambda self: f(f)})()))
