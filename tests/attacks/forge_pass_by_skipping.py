# step: step02_softmax
# expect: fail
# A perfect judge: pytest's own exceptions, raised here, skip nothing.
class Skipped(BaseException):
    pass

class Exit(Skipped):
    returncode = 0

def softmax(x, dim=-1):
    raise Exit("0")
