# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock or seccomp
# A perfect judge: becoming another program is refused; the rest is right and counts.
# 완벽한 심판: 다른 프로그램으로 바뀌려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret
import os

#: honest


def attempt():
    os.execv("/bin/cat", ["cat", str(SECRET)])


#: tried
