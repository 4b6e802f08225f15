# step: step02_softmax
# expect: fail
# A perfect judge: so many files are too many.
def softmax(x, dim=-1):
    number = 0
    while True:
        number += 1
        with open(f"small{number}", "wb"):
            pass
