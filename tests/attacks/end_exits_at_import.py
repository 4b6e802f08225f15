# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the code ended its own process while it was imported.
# 완벽한 심판: import하는 동안 코드가 자기 프로세스를 종료했습니다.
import os

os._exit(0)
