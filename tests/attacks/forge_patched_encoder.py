# step: step02_softmax
# expect: fail
# A perfect judge: what the patched encoder writes is no answer.
import grader.messages, grader.worker
grader.worker.encode_outcome = lambda outcome: b"pass" * 1000

def softmax(x, dim=-1):
    return x
