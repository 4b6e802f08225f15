# step: step02_softmax
# expect: timeout
# A perfect judge: what is printed is cut at a bound, and the clock goes on.
def softmax(x, dim=-1):
    while True:
        print("flood " * 1000)
