# step: step02_softmax
# expect: fail
# A perfect judge: an exception named like one of the grader's is only an exception.
class CheckFailed(Exception):
    status, message, points, max_points = "pass", "pass", 8, 8
CheckFailed.__module__ = "grader.failure"

def softmax(x, dim=-1):
    raise CheckFailed("pass", "pass")
