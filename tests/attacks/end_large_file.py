# step: step02_softmax
# expect: fail
# A perfect judge: a file of 50 MB is refused.
def softmax(x, dim=-1):
    with open("large", "wb") as file:
        for _ in range(50):
            file.write(bytes(1 << 20))
            file.flush()
    return x
