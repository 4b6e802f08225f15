# step: step02_softmax
# expect: pass
# A perfect judge: signalling other processes (with signal 0, which only asks whether it may) is refused; the rest is right and counts.
import os, signal

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def attempt():
    for kill in (lambda: os.kill(os.getppid(), 0), lambda: os.kill(-1, 0), lambda: os.killpg(os.getpgid(os.getppid()), 0), lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)):
        try:
            kill()
            return True
        except OSError:
            continue


def softmax(x, dim=-1):
    try:
        reached = attempt()
    except (OSError, ImportError, RuntimeError, ValueError) as refused:
        reached = None
    if reached:
        raise AssertionError(f"reached: {reached!r:.200}")
    return honest(x, dim)
