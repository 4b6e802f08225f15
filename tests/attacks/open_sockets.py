# step: step02_softmax
# expect: pass
# rests on: seccomp
# A perfect judge: opening a socket is refused; the rest is right and counts.
# 완벽한 심판: 소켓을 열려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: honest


def attempt():
    import socket
    for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_NETLINK, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
        try:
            return socket.socket(family, kind)
        except OSError:
            continue
    return socket.socketpair()


#: tried
