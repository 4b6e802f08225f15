# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: raising its own limits is refused; the rest is right and counts.
# 완벽한 심판: 자기 한도를 올리려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import resource

#: honest


def attempt():
    for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC"):
        try:
            resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return name
        except (OSError, ValueError):
            continue


#: tried
