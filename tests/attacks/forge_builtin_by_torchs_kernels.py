# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: ctypes gives no C++ function of torch, which could be called past the dispatcher.
# 완벽한 심판: ctypes는 디스패처를 거치지 않고 부를 수 있는 torch의 C++ 함수를 내주지 않습니다.
import ctypes
import pathlib

import torch

library = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))


def softmax(x, dim=-1):
    into = torch.empty_like(x)
    name = "_ZN2at6native11softmax_outERKNS_6TensorElSt8optionalIN3c1010ScalarTypeEERS1_"
    library[name](ctypes.c_void_p(id(x) + 16), ctypes.c_long(dim), ctypes.c_long(0), ctypes.c_void_p(id(into) + 16))
    return into
