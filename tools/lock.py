"""Pins what pip picks today for the ranges of pyproject.toml: for learners, labs, instructors, the site, tests, and
step 29.

Run by `make lock` with the Python of a fresh virtual environment.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements"
HEADER = "# Generated from pyproject.toml by `make lock`.\n"
# A local version label (+cpu) names one machine's build; the pin is for every machine.
TORCH = "torch==2.13.0"
TRITON = "triton==3.7.1"  # which torch's usual build for Linux pins; its CPU build pins none


def installed(python: str) -> list[str]:
    """What is installed, as pins."""
    frozen = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    pins = (TORCH if line.startswith(("torch @", "torch==")) else line for line in frozen.splitlines())
    return [pin for pin in pins if " @ " not in pin]


def main(python: str) -> None:
    """Installs the sets in turn and writes a file for each, every one beginning with the one before; Triton's last."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    sets = {
        "base.lock": [
            TORCH,
            *(each for each in project["dependencies"] if each not in [*extras["lab"], *extras["page"]]),
        ],
        "lab.lock": extras["lab"],
        "page.lock": extras["page"],
        "instructor.lock": [*extras["class"], *extras["instructor"]],
        "site.lock": extras["site"],
        "test.lock": [*extras["cluster"], *extras["postgresql"], *extras["test"]],
        "mutate.lock": extras["mutate"],
    }
    pinned: list[str] = []
    before = ""
    for file, wanted in sets.items():
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        new = [pin for pin in installed(python) if pin not in pinned]
        (PINS / file).write_text(HEADER + before + "\n".join(new) + "\n")
        pinned += new
        before = f"-r {file}\n"
    needed = _closure(python, extras["class"])  # once: pip takes seconds for it
    closed = {pin for pin in pinned if _name(pin) in needed} - set(_pins("base.lock"))
    (PINS / "class.lock").write_text(HEADER + "-r base.lock\n" + "\n".join(sorted(closed, key=str.lower)) + "\n")
    # Large, for Linux only, and needed by one step: no other set begins with it.
    subprocess.run([python, "-m", "pip", "install", "--quiet", TRITON], check=True)
    new = [f'{pin}; sys_platform == "linux"' for pin in installed(python) if pin not in pinned]
    (PINS / "triton.lock").write_text(HEADER + "-r base.lock\n" + "\n".join(new) + "\n")


def _pins(file: str) -> list[str]:
    return (PINS / file).read_text().splitlines()


def _name(requirement: str) -> str:
    """The package of a pin or a range, as all its spellings are compared."""
    found = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _closure(python: str, wanted: list[str]) -> set[str]:
    """The packages that these ranges need, with all that those need, of what is installed."""
    told = subprocess.run([python, "-m", "pip", "inspect"], check=True, capture_output=True, text=True).stdout
    needs = {
        _name(one["metadata"]["name"]): [
            _name(line) for line in one["metadata"].get("requires_dist", []) if "extra ==" not in line
        ]
        for one in json.loads(told)["installed"]
    }
    found: set[str] = set()
    left = [_name(requirement) for requirement in wanted]
    while left:
        name = left.pop()
        if name in needs and name not in found:
            found.add(name)
            left += needs[name]
    return found


def ranges() -> str:
    """Every range of pyproject.toml, for an environment without pins; but not torch's, nor Triton's, which each torch
    for Linux pins for itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "triton"}
    ranges = itertools.chain(project["dependencies"], *extras.values())
    return "\n".join(wanted for wanted in ranges if not wanted.startswith("torch>="))


if __name__ == "__main__":
    if sys.argv[1] == "--ranges":
        print(ranges())
    else:
        main(sys.argv[1])
