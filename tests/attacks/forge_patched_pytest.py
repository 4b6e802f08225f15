# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the learner's process has no pytest that anyone listens to.
# 완벽한 심판: 학습자의 프로세스에서 pytest를 바꿔치기해도 그 말을 듣는 곳이 없습니다.
import sys, types
for name in ("pytest", "_pytest", "_pytest.runner", "grader.checks.assertions", "grader.checks.compare", "grader.checks.trial", "grader.judge.session"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__getattr__ = lambda attribute: (lambda *a, **k: True)

def softmax(x, dim=-1):
    return x
