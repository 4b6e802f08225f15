"""Pins what pip picks today for the ranges of pyproject.toml, for learners and, beside it, for the tests.

Run by `make lock` with the Python of a fresh virtual environment.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Generated from pyproject.toml by `make lock`.\n"
# A local version label (+cpu) names one machine's build; the pin is for every machine.
TORCH = "torch==2.13.0"


def installed(python: str) -> list[str]:
    """What is installed, as pins."""
    frozen = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    pins = (TORCH if line.startswith(("torch @", "torch==")) else line for line in frozen.splitlines())
    return [pin for pin in pins if " @ " not in pin]


def main(python: str) -> None:
    """Installs both sets in turn and writes the two files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, TORCH], check=True)
    subprocess.run([*install, *project["dependencies"]], check=True)
    runtime = installed(python)
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(runtime) + "\n")
    subprocess.run([*install, *project["optional-dependencies"]["test"]], check=True)
    extra = [pin for pin in installed(python) if pin not in runtime]
    (ROOT / "requirements-test.lock").write_text(HEADER + "-r requirements.lock\n" + "\n".join(extra) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
