# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: softmax raised MemoryError.
# 완벽한 심판: softmax에서 MemoryError가 일어났습니다.
def softmax(x, dim=-1):
    kept = []
    while True:
        kept.append(bytearray(64 << 20))
