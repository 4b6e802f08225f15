# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: what is printed is cut at a bound, and the clock goes on.
# 완벽한 심판: 출력은 한도에서 잘리고, 시간은 계속 갑니다.
def softmax(x, dim=-1):
    while True:
        print("flood " * 1000)
