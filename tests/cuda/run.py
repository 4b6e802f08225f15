"""Runs the parts in turn within one budget, and writes what they found."""

from __future__ import annotations

import json
import platform
import re
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from grader.base.paths import ROOT
from grader.oracle.live import solutions
from grader.sandbox import preload
from tests.cuda import course, flash, halves

VERSION = 1
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
    folder = Path(out) if out else ROOT / ("docs/cuda" if device == "cuda" else "dist/cuda")
    files = written(found, folder)
    print("\n".join(f"written: {file}" for file in files))
    for one in (surprises := unexpected(found)):
        print(f"not as expected: {one}")
    return 1 if surprises else 0


def measured(device: str, quick: bool, begin: float, seconds: float) -> dict[str, Any]:
    """What every part found."""
    torch.set_num_threads(1)
    steps = [step for step in solutions() if not quick or step.number in QUICK_STEPS]
    # First, while this process has not touched the GPU: the judge's workers are forked from one that has not.
    graded = course.graded(steps, device, begin + GRADED * seconds, tell)
    preload.load_torch()
    tell("float16 with GradScaler")
    half = halves.run(device, 10 if quick else 60)
    lengths = QUICK_LENGTHS if quick else LENGTHS
    bench = flash.measure(device, lengths, begin + FLASH * seconds, tell)
    tried = course.right_and_wrong(steps, device, begin + WRONG * seconds, tell)
    return {
        "version": VERSION, "device": device, "quick": quick, "machine": machine(device),
        "date": datetime.now(UTC).date().isoformat(), "graded": graded, "not_graded": len(steps) - len(graded),
        "halves": half, "flash": bench | {"goals": flash.goals(bench["rows"])}, "right_and_wrong": tried,
    }  # fmt: skip


def machine(device: str) -> dict[str, str]:
    """The machine, by name, and the versions of what matters."""
    is_cuda = device == "cuda"
    named = torch.cuda.get_device_name() if is_cuda else f"{platform.system()} {platform.machine()}, CPU"
    return {
        "name": named, "torch": torch.__version__, "cuda": (torch.version.cuda or "") if is_cuda else "",
        "triton": _version("triton"), "python": platform.python_version(),
    }  # fmt: skip


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
    overflow = found["halves"]["overflow"]
    if not overflow["parameters_kept"] or overflow["scale_after"] >= overflow["scale_before"]:
        said.append("an overflow changed the parameters, or left the scale")
    room = 0.02 if found["flash"]["dtype"] == "float16" else 1e-4
    for name, error in found["flash"]["errors"].items():
        if not isinstance(error, str) and not error <= room:
            said.append(f"{name} is off by {error:.2g}")
    return said


def written(found: dict[str, Any], folder: Path) -> list[Path]:
    """The JSON and the pages, under the machine's name."""
    from tests.cuda import page

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
