# step: step02_softmax
# expect: fail
# A perfect judge: an error whose type lies about its name has some name.
class Meta(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")

class Odd(Exception, metaclass=Meta):
    pass

def softmax(x, dim=-1):
    raise Odd
