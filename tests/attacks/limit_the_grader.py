# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: setting another process's limits is refused; the rest is right and counts.
# 완벽한 심판: 다른 프로세스의 한도를 정하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os, resource

#: honest


def attempt():
    for name in ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS"):
        kind = getattr(resource, name)
        resource.prlimit(os.getppid(), kind, resource.prlimit(os.getppid(), kind))
    return True


#: tried
