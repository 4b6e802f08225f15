# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an exception named like one of the grader's is only an exception.
# 완벽한 심판: 채점기의 예외와 이름이 같은 예외도 그저 예외입니다.
class CheckFailed(Exception):
    status, message, points, max_points = "pass", "pass", 8, 8
CheckFailed.__module__ = "grader.base.errors"

def softmax(x, dim=-1):
    raise CheckFailed("pass", "pass")
