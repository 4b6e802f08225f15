# step: step02_softmax
# expect: fail
# A perfect judge: softmax raised MemoryError.
def softmax(x, dim=-1):
    kept = []
    while True:
        kept.append(bytearray(64 << 20))
