# step: step02_softmax
# expect: fail or timeout
# A perfect judge: a finaliser that never ends is on the clock.
class Endless:
    def __del__(self):
        while True:
            pass

def softmax(x, dim=-1):
    Endless()
    return x
