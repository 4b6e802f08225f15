# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an object is no tensor, whatever it says when compared.
# 완벽한 심판: 무엇과 비교해도 같다고 하는 객체는 텐서가 아닙니다.
class Equal:
    shape, dtype, device = (3,), "float32", "cpu"
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __sub__(self, other): return 0.0
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __float__(self): return 0.0
    def __bool__(self): return True
    def __iter__(self): return iter(())

def softmax(x, dim=-1):
    return Equal()
