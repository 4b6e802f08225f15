# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a nest of errors is one error.
# 완벽한 심판: 겹겹이 싸인 오류도 오류 하나입니다.
def softmax(x, dim=-1):
    error = ValueError("inner")
    for _ in range(500):
        error = ExceptionGroup("outer", [error])
    raise error
