# step: step02_softmax
# expect: timeout
# A perfect judge: a file that never ends importing is too late once, not once a check.
while True:
    pass
