# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock or seccomp
# A perfect judge: reaching the network is refused; the rest is right and counts.
# 완벽한 심판: 네트워크 접속 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: honest


def attempt():
    import urllib.request
    try:
        return urllib.request.urlopen("http://127.0.0.1/", timeout=1).read() or True
    except urllib.error.URLError as answered:
        return isinstance(answered.reason, ConnectionRefusedError)  # nobody serves pages there, and it has been asked


#: tried
