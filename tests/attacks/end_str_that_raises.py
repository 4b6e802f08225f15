# step: step02_softmax
# expect: fail
# A perfect judge: an error that can't say what it is has its name.
class Mute(Exception):
    def __str__(self):
        raise SystemExit(0)
    __repr__ = __str__

def softmax(x, dim=-1):
    raise Mute
