# step: step02_softmax
# expect: fail
# A perfect judge: a broken encoder is the learner's own fault.
import msgspec, json, safetensors
import grader.messages
class Broken:
    def encode(self, *a): raise SystemExit(0)
grader.messages._encoder = Broken()
json.dumps = safetensors.serialize = msgspec.msgpack.encode = None

def softmax(x, dim=-1):
    return x
