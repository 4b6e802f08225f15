# step: step02_softmax
# expect: fail or timeout
# A perfect judge: MemoryError, whatever it was filled with.
def softmax(x, dim=-1):
    kept = {}
    while True:
        kept[len(kept)] = (len(kept), str(len(kept)))
