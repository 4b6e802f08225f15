# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: builtins that are patched are the learner's own.
# 완벽한 심판: 바꿔치기한 내장 함수는 학습자 자신의 것일 뿐입니다.
import builtins
builtins.isinstance = lambda *a: True
builtins.abs = builtins.all = builtins.any = builtins.len = lambda *a: 1

def softmax(x, dim=-1):
    return x
