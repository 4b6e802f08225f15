# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: reading /etc is refused; the rest is right and counts.
# 완벽한 심판: /etc를 읽으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    return open('/etc/passwd').read()


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
