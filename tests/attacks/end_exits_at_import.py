# step: step02_softmax
# expect: fail
# A perfect judge: the code ended its own process while it was imported.
import os

os._exit(0)
