# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a float whose repr is no number is nonsense, and is called so.
# 완벽한 심판: repr이 수가 아닌 float은 말이 되지 않는 답이며, 그렇게 알려 줍니다.
class Lying(float):
    def __repr__(self): return "nan" * 1000
class Int(int):
    def __abs__(self): return 0
class Text(str):
    def __str__(self): return self

def softmax(x, dim=-1):
    return (Lying(1.0), Int(10**30), Text("x" * 10**6))
