# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: importing raised SystemExit.
# 완벽한 심판: import하는 동안 SystemExit가 일어났습니다.
import sys

sys.exit(0)
