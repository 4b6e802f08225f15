# step: step02_softmax
# expect: pass or fail
# rests on: process and limits
# A perfect judge: the 32-bit way of making a call is refused, or kills the process where the kernel has none.
# 완벽한 심판: 32비트 방식의 호출은 거부되며, 커널이 지원하지 않으면 프로세스가 종료됩니다.
import ctypes, mmap, platform

#: secret

#: honest


def attempt():
    # push rbx; mov eax, edi; mov ebx, esi; xor ecx, ecx; xor edx, edx; int 0x80; pop rbx; ret
    code = bytes.fromhex("53 89f8 89f3 31c9 31d2 cd80 5b c3")
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=7)
    page[: len(code)] = code
    page[1024 : 1024 + len(str(SECRET)) + 1] = str(SECRET).encode() + bytes(1)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_uint)(start)(5, start + 1024)


def softmax(x, dim=-1):
    if platform.machine() == "x86_64" and attempt() >= 0:
        raise AssertionError("the file was opened")
    return honest(x, dim)
