"""Attention from scratch: the grader of the exercise kit."""

import os

# Some virtual machines list AMX among the processor's instructions and don't run it: oneDNN's first product in bfloat16
# would end the process. It is read when torch is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

__version__ = "1.0.0"
