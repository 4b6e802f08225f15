# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: MemoryError, whatever it was filled with.
# 완벽한 심판: 무엇으로 채웠든 MemoryError입니다.
def softmax(x, dim=-1):
    kept = {}
    while True:
        kept[len(kept)] = (len(kept), str(len(kept)))
