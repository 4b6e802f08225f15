# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: reading other processes through /proc is refused; the rest is right and counts.
# 완벽한 심판: /proc에서 다른 프로세스를 읽으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os

#: honest


def attempt():
    for pid in ["self", os.getppid(), 1, *range(2, 400)]:
        for name in ("environ", "mem", "maps", "cmdline", "fd", "cwd/.", "root/etc/passwd", "stat"):
            try:
                place = f"/proc/{pid}/{name}"
                return os.listdir(place) if os.path.isdir(place) else open(place, "rb").read(1)
            except OSError:
                continue


#: tried
