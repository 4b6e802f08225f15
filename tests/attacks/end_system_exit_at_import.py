# step: step02_softmax
# expect: fail
# A perfect judge: importing raised SystemExit.
import sys

sys.exit(0)
