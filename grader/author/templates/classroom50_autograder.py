"""Classroom 50's autograder for this course: put it, and the kit next to it as `kit/`, into the repository
`classroom50` of your organisation, as CLASSROOM/autograders/ASSIGNMENT/autograder.py and
CLASSROOM/autograders/ASSIGNMENT/kit/.

It grades a student's checkout with the recorded answers of the kit, which hold no solution. It needs Python 3.11.
"""

import os
import subprocess
import sys
from pathlib import Path

KIT = Path(__file__).resolve().parent / "kit"
CHECKOUT = Path.cwd()
SUBMISSION = next((path for path in (CHECKOUT / "exercises", CHECKOUT) if path.is_dir()), CHECKOUT)
REPORT = KIT / "report.json"


def run(*arguments: str, in_folder: Path = KIT) -> int:
    """Runs a module of the kit; nothing of the checkout is on its path."""
    environment = os.environ | {"PYTHONPATH": str(KIT), "PYTHONSAFEPATH": "1"}
    return subprocess.run([sys.executable, "-m", *arguments], cwd=in_folder, env=environment, check=False).returncode


REPORT.unlink(missing_ok=True)
if run("pip", "install", "--quiet", "-r", "requirements/base.lock"):
    sys.exit(1)
run("grader", "grade", "--submission", str(SUBMISSION), "--json", str(REPORT))
if not REPORT.is_file():  # an infrastructure error, and not a zero
    sys.exit(1)
sys.exit(run("grader.report.classroom50", str(REPORT), str(CHECKOUT / "result.json"), in_folder=CHECKOUT))
