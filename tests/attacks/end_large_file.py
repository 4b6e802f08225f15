# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a file of 50 MB is refused.
# 완벽한 심판: 50 MB짜리 파일은 거부됩니다.
def softmax(x, dim=-1):
    with open("large", "wb") as file:
        for _ in range(50):
            file.write(bytes(1 << 20))
            file.flush()
    return x
