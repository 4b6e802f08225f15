"""The environment variables of every process that runs, or talks to, a learner's code."""

from __future__ import annotations

import os


def clean_environment() -> dict[str, str]:
    """The environment of a process that runs, or talks to, a learner's code: of the user's, the variables that say
    where libraries are; with those that keep these to one thread, and Triton to the CPU."""
    prefixes = ("LD_LIBRARY_PATH", "DYLD_", "CUDA_", "NVIDIA_", "ONEDNN_", "SYSTEMROOT", "TZ", "KIT_DEBUG")
    environment = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    one_thread = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_THREAD_LIMIT", "VECLIB_MAXIMUM_THREADS"),
        "1",
    )
    # Triton reads it when it is imported: its kernels then run on a CPU, in its interpreter.
    one_thread["TRITON_INTERPRET"] = "1"
    return environment | one_thread | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "LANG": "C.UTF-8", "PATH": os.defpath}


# What `breakpoint()` says in a process without a keyboard, and goes on. The judge translates it.
NO_TERMINAL = "breakpoint() does not stop here: there is no keyboard. Type: make repro"
