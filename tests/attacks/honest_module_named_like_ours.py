# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: a helper file's name may be anything.
# 완벽한 심판: 도우미 파일의 이름은 무엇이든 됩니다.
import grader
import torch

#: honest


def softmax(x, dim=-1):
    return honest(x, dim)
