# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a closed standard output is nobody else's matter.
# 완벽한 심판: 표준 출력을 닫아도 다른 프로세스에는 영향이 없습니다.
import os, sys

sys.stdout.close()
sys.stderr = None
os.close(1)
os.close(2)

def softmax(x, dim=-1):
    return x
