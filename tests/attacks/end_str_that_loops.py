# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: an error that never says what it is is too late.
# 완벽한 심판: 무슨 오류인지 끝내 말하지 않으면 시간 초과입니다.
class Endless(Exception):
    def __str__(self):
        while True:
            pass

def softmax(x, dim=-1):
    raise Endless
