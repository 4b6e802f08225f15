# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: files below a path that is too long to look at are too much: the process is ended.
# 완벽한 심판: 경로가 너무 길어 들여다볼 수 없는 곳에 파일을 쌓으면 한도를 넘은 것으로 보고 프로세스를 종료합니다.
import os


def softmax(x, dim=-1):
    for _ in range(20):  # folders: few, and together longer than any path may be
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    for number in range(8):
        with open(f"large{number}", "wb") as file:
            for _ in range(10):
                file.write(bytes(1 << 20))
    while True:
        pass
