# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: finding a reference among the modules is refused; the rest is right and counts.
# 완벽한 심판: 불러온 모듈에서 레퍼런스를 찾으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import sys

#: honest


def attempt():
    return [name for name in sys.modules if name.startswith(("solutions", "grader.course.steps", "grader.checks.trial", "grader.checks.compare", "pytest"))]


#: tried
