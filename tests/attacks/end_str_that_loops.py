# step: step02_softmax
# expect: timeout
# A perfect judge: an error that never says what it is is too late.
class Endless(Exception):
    def __str__(self):
        while True:
            pass

def softmax(x, dim=-1):
    raise Endless
