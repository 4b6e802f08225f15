# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: so many files are too many.
# 완벽한 심판: 파일 수에도 한도가 있습니다.
def softmax(x, dim=-1):
    number = 0
    while True:
        number += 1
        with open(f"small{number}", "wb"):
            pass
