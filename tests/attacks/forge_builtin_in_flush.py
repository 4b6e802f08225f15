# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the answer is bytes before a stream of one's own is flushed.
# 완벽한 심판: 직접 만든 출력 스트림을 비우기 전에 답을 이미 바이트로 바꿔 둡니다.
import sys

import torch

WAITING = []


#: later


class Stream:
    def write(self, text):
        return len(text)

    def flush(self):
        fill()


sys.stdout = Stream()


def softmax(x, dim=-1):
    result = Later.apply(x, dim)
    WAITING.append((result.detach(), x.detach(), dim))
    return result
