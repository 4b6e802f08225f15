# step: step02_softmax
# expect: todo
# A perfect judge: an error that looks like an untouched stub earns nothing.
def softmax(x, dim=-1):
    raise NotImplementedError
