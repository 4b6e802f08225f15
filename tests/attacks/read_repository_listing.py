# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: listing the repository is refused; the rest is right and counts.
# 완벽한 심판: 저장소의 목록을 보려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret
import os

#: honest


def attempt():
    return set(os.listdir(ROOT)) - {".venv"}  # Python may lie there


#: tried
