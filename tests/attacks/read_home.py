# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: listing home folders is refused; the rest is right and counts.
# 완벽한 심판: 홈 폴더의 목록을 보려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os, pathlib, sys

#: honest


def attempt():
    # The folders that lead to Python are known to everybody.
    leads = {part for entry in (sys.prefix, sys.base_prefix) for part in pathlib.Path(entry).parts}
    for place in ("/root", "/home", "/mnt", "/srv", "/var"):
        try:
            if found := set(os.listdir(place)) - leads:
                return found
        except OSError:
            continue


#: tried
