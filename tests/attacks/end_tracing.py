# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: a trace function sees its own process only.
# 완벽한 심판: 추적 함수는 자기 프로세스만 봅니다.
import sys

def trace(frame, event, argument):
    frame.f_trace_lines = True
    return trace

sys.settrace(trace)
sys.setprofile(trace)

def softmax(x, dim=-1):
    return x
