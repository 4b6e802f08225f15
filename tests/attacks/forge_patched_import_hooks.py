# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: import hooks of the learner's see no import of the grader's.
# 완벽한 심판: 학습자의 import 훅은 채점기의 import를 보지 못합니다.
import sys

class Hook:
    def find_spec(self, name, path=None, target=None):
        raise SystemExit(0)

sys.meta_path[:] = [Hook()]
sys.path_hooks[:] = []

def softmax(x, dim=-1):
    import wave
    return x
