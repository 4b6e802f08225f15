# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an error that can't say what it is has its name.
# 완벽한 심판: 무슨 오류인지 말하지 못하는 오류도 이름은 있습니다.
class Mute(Exception):
    def __str__(self):
        raise SystemExit(0)
    __repr__ = __str__

def softmax(x, dim=-1):
    raise Mute
