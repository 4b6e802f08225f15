# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a folder that the code has emptied or locked is removed like another.
# 완벽한 심판: 코드가 비우거나 잠근 폴더도 다른 폴더처럼 지웁니다.
import os

def softmax(x, dim=-1):
    os.makedirs("a/b/c", exist_ok=True)
    open("a/b/c/file", "w").close()
    os.umask(0o777)
    os.makedirs("e/f", exist_ok=True)
    return x
