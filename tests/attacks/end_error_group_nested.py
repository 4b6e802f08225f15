# step: step02_softmax
# expect: fail
# A perfect judge: a nest of errors is one error.
def softmax(x, dim=-1):
    error = ValueError("inner")
    for _ in range(500):
        error = ExceptionGroup("outer", [error])
    raise error
