# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: locks on files that everybody reads, and questions about the page cache, are refused.
# 완벽한 심판: 모두가 읽는 파일에 거는 잠금과 페이지 캐시를 묻는 호출을 거부합니다.
import fcntl, json, os

#: honest


def attempt():
    """A lock here is seen by the next submission, and so is a page that is there already."""
    file = os.open(json.__file__, os.O_RDONLY)
    reached = []
    for name, carries in {
        "flock": lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB),
        "lockf": lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB),
        "fadvise": lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED),
        "preadv2": lambda: os.preadv(file, [bytearray(1)], 0, os.RWF_HIPRI),
    }.items():
        try:
            carries()
        except PermissionError:
            continue
        reached.append(name)
    return reached


#: tried
