# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: a loop that Python does not see is ended by the kernel.
# 완벽한 심판: 파이썬이 보지 못하는 반복은 커널이 끝냅니다.
import re

def softmax(x, dim=-1):
    re.match(r"(a*)*b", "a" * 40)
    return x
