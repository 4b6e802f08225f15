# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: pytest's own exceptions, raised here, skip nothing.
# 완벽한 심판: 여기서 일으킨 pytest의 예외는 아무것도 건너뛰게 하지 않습니다.
class Skipped(BaseException):
    pass

class Exit(Skipped):
    returncode = 0

def softmax(x, dim=-1):
    raise Exit("0")
