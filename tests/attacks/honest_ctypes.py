# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: ctypes with a callback works.
# 완벽한 심판: 콜백을 쓰는 ctypes가 동작합니다.
import ctypes

#: honest


def softmax(x, dim=-1):
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    ctypes.CDLL(None).qsort(numbers, 3, 4, compare(lambda a, b: a[0] - b[0]))
    assert list(numbers) == [1, 2, 3]
    return honest(x, dim)
