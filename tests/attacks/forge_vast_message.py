# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what is said of an answer is cut, however many long names are in it.
# 완벽한 심판: 긴 이름이 아무리 많이 들어 있어도 답에 대한 설명은 잘라서 보여 줍니다.
def softmax(x, dim=-1):
    long_name = type("T" * 3900, (), {})()
    return [[[long_name] * 6] * 6] * 6
