# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: importing the reference is refused; the rest is right and counts.
# 완벽한 심판: 레퍼런스를 import하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

#: honest


def attempt():
    sys.path.insert(0, str(ROOT))
    from solutions.core.step02_softmax import reference
    return reference.softmax


#: tried
