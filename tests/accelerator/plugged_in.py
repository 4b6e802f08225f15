"""An environment whose torch has the simulated accelerator: a virtual environment with a driver package of its own.

torch loads the entry points of the group `torch.backends` when it is imported, in whatever process: judges, workers,
labs. So everything here runs as it would on a machine with an accelerator that torch does not know by itself.
"""

from __future__ import annotations

import site
import subprocess
import sys
import venv
from pathlib import Path

from tests.accelerator import simulated

PACKAGE = "simulated_accelerator"


def make(folder: Path, *, in_use: bool = False) -> Path:
    """Makes the environment in an empty folder; returns its Python. `in_use`: the driver starts with the import."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    asked = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, stdout=subprocess.PIPE
    )
    packages = Path(asked.stdout.decode().strip())
    known = [place for place in (*site.getsitepackages(), *sys.path) if place.endswith("site-packages")]
    (packages / "all.pth").write_text("\n".join(dict.fromkeys(known)) + "\n", encoding="utf-8")
    code = Path(simulated.__file__).read_text(encoding="utf-8") + ("\nMODULE.init()\n" if in_use else "")
    (packages / f"{PACKAGE}.py").write_text(code, encoding="utf-8")
    about = packages / f"{PACKAGE}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[torch.backends]\nsim = {PACKAGE}:install\n", encoding="utf-8")
    return python
