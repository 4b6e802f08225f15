# step: step02_softmax
# expect: timeout
# A perfect judge: no answer within the deadline, and the line where it loops.
def softmax(x, dim=-1):
    while True:
        pass
