"""Runs the parts in turn within one budget, and writes what they found."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from grader.base.paths import ROOT
from grader.calls import devices
from grader.oracle.live import solutions
from grader.sandbox import preload
from tools.cuda import course, flash, halves

VERSION = 1
Found = Any  # what a part found, as JSON has it
LENGTHS = tuple(2**power for power in range(8, 16))  # 256 to 32,768
# The share of the time after which each part stops. The last one's end is everybody's.
GRADED, FLASH, WRONG = 0.35, 0.7, 1.0
QUICK_STEPS = (1, 4, 10, 29)
QUICK_LENGTHS = (64, 128, 256)


def everything(device: str, quick: bool, seconds: float, out: str) -> int:
    """Runs, writes, and says where; the exit status as `main` gives it."""
    begin = time.monotonic()
    found = measured(device, quick, begin, seconds)
    found["seconds"] = round(time.monotonic() - begin, 1)
    folder = Path(out) if out else ROOT / ("docs/cuda" if device == "cuda" and not quick else "dist/cuda")
    files = written(found, folder)
    print("\n".join(f"written: {file}" for file in files))
    for one in (surprises := unexpected(found)):
        print(f"not as expected: {one}")
    return 1 if surprises else 0


def measured(device: str, quick: bool, begin: float, seconds: float) -> dict[str, Any]:
    """What every part found."""
    torch.set_num_threads(1)
    devices.compute_exactly()
    about, failed = machine(device), []
    tell(", ".join(f"{name} {said}" for name, said in about.items() if said))

    def part(name: str, run: Callable[[], Found], otherwise: Found) -> Found:
        """What a part finds; of one that ends in an error, a line on the page, and the others go on."""
        try:
            return run()
        except Exception as error:  # a driver, a compiler, or memory: whatever a machine may lack
            failed.append(f"{name}: {flash.in_a_line(error)}")
            tell(failed[-1])
            return otherwise

    steps = [step for step in solutions() if not quick or step.number in QUICK_STEPS]
    # First, while this process has not touched the GPU: the judge's workers are forked from one that has not.
    graded = part("graded", lambda: course.graded(steps, device, begin + GRADED * seconds, tell), [])
    preload.load_torch()
    tell("float16 with GradScaler")
    half = part("float16", lambda: halves.run(device, 10 if quick else 60), None)
    lengths = QUICK_LENGTHS if quick else LENGTHS
    nothing: Found = {"dtype": "", "heads": 0, "width": 0, "rows": [], "errors": {}}
    bench = part("attention", lambda: flash.measure(device, lengths, begin + FLASH * seconds, tell), nothing)
    tried = part("right and wrong", lambda: course.right_and_wrong(steps, device, begin + WRONG * seconds, tell), [])
    return {
        "version": VERSION, "device": device, "quick": quick, "machine": about, "failed": failed,
        "date": datetime.now(UTC).date().isoformat(), "graded": graded, "not_graded": len(steps) - len(graded),
        "halves": half, "flash": bench | {"goals": flash.goals(bench["rows"])}, "right_and_wrong": tried,
    }  # fmt: skip


def machine(device: str) -> dict[str, str]:
    """The machine, by name, and the versions of what matters."""
    is_cpu = device == devices.CPU
    named = f"{platform.system()} {platform.machine()}, CPU" if is_cpu else devices.label(device)
    rounded = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    return {
        "name": named, "driver": "" if is_cpu else _driver(), "torch": torch.__version__,
        "cuda": "" if is_cpu else torch.version.cuda or torch.version.hip or "", "TF32": "on" if rounded else "off",
        "triton": _version("triton"), "python": platform.python_version(),
    }  # fmt: skip


def _driver() -> str:
    """The version of NVIDIA's driver, as its own tool says it; empty where there is none."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.partition("\n")[0].strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def unexpected(found: dict[str, Any]) -> list[str]:
    """Everything that is otherwise than it should be. What was not reached, or is missing here, is not."""
    said = [f"{one['step']} is {one['status']}: {one['said']}" for one in found["graded"]
            if one["status"] != "pass" and one["score"] is not None]  # fmt: skip
    said += [f"{one['step']}, {what}" for one in found["right_and_wrong"] for what in one["surprises"]]
    said += found["failed"]
    overflow = found["halves"]["overflow"] if found["halves"] else None
    if overflow and (not overflow["parameters_kept"] or overflow["scale_after"] >= overflow["scale_before"]):
        said.append("an overflow changed the parameters, or left the scale")
    room = 0.02 if found["flash"]["dtype"] == "float16" else 1e-4
    for name, error in found["flash"]["errors"].items():
        if not isinstance(error, str) and not error <= room:
            said.append(f"{name} is off by {error:.2g}")
    return said


def written(found: dict[str, Any], folder: Path) -> list[Path]:
    """The JSON and the pages, under the machine's name."""
    from tools.cuda import page

    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", found["machine"]["name"].lower()).strip("-")
    data = folder / f"{name}.json"
    data.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    pages = {folder / f"{name}.{spoken}.html": page.html(found, spoken) for spoken in ("en", "ko")}
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return [data, *pages]


def tell(what: str) -> None:
    """One line on the terminal."""
    print(what, file=sys.stderr, flush=True)
