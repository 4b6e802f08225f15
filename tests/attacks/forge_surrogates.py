# step: step02_softmax
# expect: fail
# A perfect judge: text that is no Unicode does not break the channel.
def softmax(x, dim=-1):
    raise ValueError("\ud800\udfff" * 100)
