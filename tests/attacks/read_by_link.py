# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock or seccomp
# A perfect judge: linking to the reference is refused; the rest is right and counts.
# 완벽한 심판: 레퍼런스에 링크를 걸려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret
import os

#: honest


def attempt():
    for make in (os.symlink, os.link):
        try:
            make(SECRET, "mine")
            return open("mine").read()
        except OSError:
            continue


#: tried
