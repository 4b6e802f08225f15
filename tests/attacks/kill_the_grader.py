# step: step02_softmax
# expect: pass
# rests on: landlock or seccomp
# A perfect judge: signalling other processes (with signal 0, which only asks whether it may) is refused; the rest is right and counts.
# 완벽한 심판: 다른 프로세스에 시그널(보낼 수 있는지만 묻는 시그널 0)을 보내려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import os, signal

#: honest


def attempt():
    # Not with -1, for all: Linux calls that a success also where the signal was refused for every one of them.
    for kill in (lambda: os.kill(os.getppid(), 0), lambda: os.killpg(os.getpgid(os.getppid()), 0), lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)):
        try:
            kill()
            return True
        except OSError:
            continue


#: tried
