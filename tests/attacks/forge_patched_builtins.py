# step: step02_softmax
# expect: fail
# A perfect judge: builtins that are patched are the learner's own.
import builtins
builtins.isinstance = lambda *a: True
builtins.abs = builtins.all = builtins.any = builtins.len = lambda *a: 1

def softmax(x, dim=-1):
    return x
