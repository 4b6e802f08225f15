# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: infinity is not within any tolerance.
# 완벽한 심판: 무한대는 어떤 허용 오차에도 들지 않습니다.
def softmax(x, dim=-1):
    return x * 0 + float('inf')
