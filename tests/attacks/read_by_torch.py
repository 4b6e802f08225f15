# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: reading a file through torch and numpy is refused; the rest is right and counts.
# 완벽한 심판: torch와 numpy로 파일을 읽으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret
import torch

#: honest


def attempt():
    import numpy
    for read in (lambda: torch.from_file(str(SECRET), shared=False, size=16, dtype=torch.uint8), lambda: numpy.fromfile(SECRET), lambda: numpy.memmap(SECRET), lambda: torch.load(SECRET, weights_only=False)):
        try:
            return read()
        except (OSError, RuntimeError):
            continue


#: tried
