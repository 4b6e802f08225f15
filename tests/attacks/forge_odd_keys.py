# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a dict is no tensor, and its keys are only text.
# 완벽한 심판: 딕셔너리는 텐서가 아니며, 키는 글자일 뿐입니다.
class Key:
    def __str__(self): raise RuntimeError("no key")
    def __hash__(self): return 0
    def __eq__(self, other): return True

def softmax(x, dim=-1):
    return {Key(): x}
