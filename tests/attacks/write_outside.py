# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: writing anywhere but into its own folder is refused; the rest is right and counts.
# 완벽한 심판: 자기 폴더가 아닌 곳에 쓰려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret
import os
import torch

#: honest


def attempt():
    for place in (SECRET, pathlib.Path(torch.__file__), pathlib.Path("/proc/self/oom_score_adj"), pathlib.Path("/proc/self/comm")):
        try:
            os.close(os.open(place, os.O_WRONLY | os.O_APPEND))
            return place
        except OSError:
            continue
    for folder in (ROOT, SECRET.parent, pathlib.Path(torch.__file__).parent, pathlib.Path(".."), *map(pathlib.Path, ("/", "/tmp", "/dev/shm", "/var/tmp", "/run", "/root", "/home"))):
        try:
            os.close(os.open(folder / "attack-of-the-kit", os.O_WRONLY | os.O_CREAT))
            os.unlink(folder / "attack-of-the-kit")
            return folder
        except OSError:
            continue


#: tried
