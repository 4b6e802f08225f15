"""`make cuda`: everything that only a GPU can show, as one JSON and one page per language.

python3 -m tools.cuda                     on a GPU: at most eight minutes; the result goes to docs/cuda/
python3 -m tools.cuda --device cpu --quick    the same parts in little on a CPU, to dist/cuda/
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

NEEDED = ("torch", "numpy", "msgspec", "safetensors", "rich", "jinja2", "markupsafe")


def arguments(given: list[str]) -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(prog="python -m tools.cuda", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="where the code runs: cuda, another accelerator, or cpu")
    parser.add_argument("--quick", action="store_true", help="a few steps, short lengths: to try the parts")
    parser.add_argument("--seconds", type=float, default=450.0, help="stop after so many; 450 by default")
    parser.add_argument("--out", default="", help="folder for the JSON and the pages")
    return parser.parse_args(given)


def missing() -> str:
    """One line with what is missing, and the command that installs it; empty where nothing is."""
    names = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not names:
        return ""
    return f"Not installed: {', '.join(names)}. Type: {sys.executable} -m pip install {' '.join(names)}"


def main(given: list[str]) -> int:
    """Runs all parts; 0 where nothing is otherwise than expected, 1 where something is, 2 where it can't run."""
    wanted = arguments(given)
    if lacking := missing():
        print(lacking, file=sys.stderr)
        return 2
    # Before Triton is imported, by whom ever: on a GPU its kernels are compiled.
    os.environ["TRITON_INTERPRET"] = "1" if wanted.device == "cpu" else "0"
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # the judge is forked from a process without CUDA
    import torch

    from grader.calls import devices

    if not devices.is_there(wanted.device):
        built = "and sees no GPU" if torch.version.cuda else "and is built without CUDA"
        print(
            f"There is no {wanted.device} here: torch is {torch.__version__} {built}. On a machine with a GPU type: "
            "make cuda PYTHON=python3, with a Python whose torch has CUDA. To try the parts: make cuda DEVICE=cpu",
            file=sys.stderr,
        )
        return 2
    from tools.cuda import run

    return run.everything(wanted.device, wanted.quick, wanted.seconds, wanted.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
