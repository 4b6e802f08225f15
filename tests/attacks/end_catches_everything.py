# step: step02_softmax
# expect: timeout
# A perfect judge: no exception is what ends it.
def softmax(x, dim=-1):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
