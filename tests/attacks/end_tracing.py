# step: step02_softmax
# expect: fail or timeout
# A perfect judge: a trace function sees its own process only.
import sys

def trace(frame, event, argument):
    frame.f_trace_lines = True
    return trace

sys.settrace(trace)
sys.setprofile(trace)

def softmax(x, dim=-1):
    return x
