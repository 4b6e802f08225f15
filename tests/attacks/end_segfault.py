# step: step02_softmax
# expect: fail
# A perfect judge: the process was killed by SIGSEGV, and where.
import ctypes

def softmax(x, dim=-1):
    return ctypes.string_at(0)
