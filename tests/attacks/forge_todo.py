# step: step02_softmax
# expect: todo
# rests on: process and limits
# A perfect judge: an error that looks like an untouched stub earns nothing.
# 완벽한 심판: 손대지 않은 스텁처럼 보이는 오류도 점수를 얻지 못합니다.
def softmax(x, dim=-1):
    raise NotImplementedError
