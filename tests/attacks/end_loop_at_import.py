# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a file that never ends importing is too late once, not once a check.
# 완벽한 심판: import가 끝나지 않는 파일은 검사마다가 아니라 한 번만 시간 초과입니다.
while True:
    pass
