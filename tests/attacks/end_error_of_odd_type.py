# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an error whose type lies about its name has some name.
# 완벽한 심판: 이름을 속이는 오류에도 어떤 이름이 붙습니다.
class Meta(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")

class Odd(Exception, metaclass=Meta):
    pass

def softmax(x, dim=-1):
    raise Odd
