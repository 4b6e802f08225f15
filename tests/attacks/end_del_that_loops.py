# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: a finaliser that never ends is on the clock.
# 완벽한 심판: 끝나지 않는 소멸자에도 제한 시간이 있습니다.
class Endless:
    def __del__(self):
        while True:
            pass

def softmax(x, dim=-1):
    Endless()
    return x
