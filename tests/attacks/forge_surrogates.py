# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: text that is no Unicode does not break the channel.
# 완벽한 심판: 유니코드가 아닌 글자도 채널을 망가뜨리지 못합니다.
def softmax(x, dim=-1):
    raise ValueError("\ud800\udfff" * 100)
