# step: step02_softmax
# expect: fail
# A perfect judge: a dict is no tensor, and its keys are only text.
class Key:
    def __str__(self): raise RuntimeError("no key")
    def __hash__(self): return 0
    def __eq__(self, other): return True

def softmax(x, dim=-1):
    return {Key(): x}
