# step: step02_softmax
# expect: fail
# A perfect judge: modules that are gone are missed by nobody else.
import sys
for name in list(sys.modules):
    if name.startswith(("grader", "msgspec", "torch.", "os", "io")):
        del sys.modules[name]

def softmax(x, dim=-1):
    return x
