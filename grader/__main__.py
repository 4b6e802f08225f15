"""`python -m grader` or `python -P grader/__main__.py`: uses the packages of `.venv`, also for another Python.

The second finds this copy of the kit, whichever copy that Python knows.
"""

# ruff: noqa: E402  the process that loads torch is started before anything else is imported
import os
import sys

if __spec__ is None:  # run by its path: what multiprocessing starts would run the command once more
    __spec__ = type(sys.__spec__)("grader.__main__", None)
if not sys.flags.safe_path:  # the current folder: a file `random.py` in it is a learner's, and not Python's
    del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import grader

grader.put_on_path()

for number in (0, 1, 2):  # closed, as by `>&-`: what is opened next would get its number
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)

from grader.judge import zygote_process

grades = sys.argv[1:2] in (["grade"], ["report"]) and not {"--help", "HELP=1"} & {*sys.argv}
early = zygote_process.started_early() if grades else None

import importlib.util
from pathlib import Path

from grader.base import language
from grader.base.language import gettext as _

HOME = Path(__file__).resolve().parent.parent / ".venv"
PYTHON = HOME / "bin" / "python"


def lacks_packages() -> bool:
    """Whether this Python is too old, or lacks a package that `make grade` installs."""
    return sys.version_info < (3, 11) or any(importlib.util.find_spec(name) is None for name in ("torch", "msgspec"))


if lacks_packages():
    if PYTHON.is_file() and Path(sys.prefix).resolve() != HOME.resolve():
        os.execv(PYTHON, [str(PYTHON), "-P", __file__, *sys.argv[1:]])
    with language.use(language.system()):
        print(_("The packages of the kit are not installed for this Python. Type: make grade"), file=sys.stderr)
    if early:
        early.kill()
    sys.exit(2)

from grader.cli.main import main  # only now can it be imported

try:
    sys.exit(main(early))
finally:
    if early:  # it may not have been needed
        early.wait(0)
