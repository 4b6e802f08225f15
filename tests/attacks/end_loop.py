# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: no answer within the deadline, and the line where it loops.
# 완벽한 심판: 제한 시간 안에 답이 없고, 어느 줄에서 도는지 보여 줍니다.
def softmax(x, dim=-1):
    while True:
        pass
