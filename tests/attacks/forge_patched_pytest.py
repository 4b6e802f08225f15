# step: step02_softmax
# expect: fail
# A perfect judge: the learner's process has no pytest that anyone listens to.
import sys, types
for name in ("pytest", "_pytest", "_pytest.runner", "grader.checks", "grader.compare", "grader.verdict", "grader.plugin"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__getattr__ = lambda attribute: (lambda *a, **k: True)

def softmax(x, dim=-1):
    return x
