# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: reading /etc is refused; the rest is right and counts.
# 완벽한 심판: /etc를 읽으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: honest


def attempt():
    return open('/etc/passwd').read()


#: tried
