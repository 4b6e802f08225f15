# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: finding a reference on the call stack is refused; the rest is right and counts.
# 완벽한 심판: 호출 스택에서 레퍼런스를 찾으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import sys

#: honest


def attempt():
    frame, found = sys._getframe(), []
    while frame:
        found += [name for name in [*frame.f_locals, *frame.f_globals] if name in ("reference", "expected", "course", "solution")]
        frame = frame.f_back
    return found


#: tried
