# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a profile function of one's own is seen to use the built-in, and is dropped with the call.
# 완벽한 심판: 직접 만든 프로파일 함수가 금지된 내장 함수를 쓰는 것도 알아내며, 호출이 끝나면 그 함수를 떼어 냅니다.
import sys

import torch

WAITING = []


#: later


def profile(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "encode_outcome":
        sys.setprofile(None)
        fill()



def softmax(x, dim=-1):
    result = Later.apply(x, dim)
    WAITING.append((result.detach(), x.detach(), dim))
    sys.setprofile(profile)
    return result
