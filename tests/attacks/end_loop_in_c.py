# step: step02_softmax
# expect: timeout
# A perfect judge: a loop that Python does not see is ended by the kernel.
import re

def softmax(x, dim=-1):
    re.match(r"(a*)*b", "a" * 40)
    return x
