# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: folders deeper than any path are removed too.
# 완벽한 심판: 어떤 경로보다 깊은 폴더도 지웁니다.
import os

def softmax(x, dim=-1):
    for _ in range(1200):
        os.mkdir("d", 0o300)
        os.chdir("d")
    with open("file", "w") as file:
        file.write("here")
    return x
