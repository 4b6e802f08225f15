# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: no exception is what ends it.
# 완벽한 심판: 끝내는 데 예외를 쓰지 않으므로 붙잡을 것이 없습니다.
def softmax(x, dim=-1):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
