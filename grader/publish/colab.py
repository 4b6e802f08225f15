"""A notebook for each track, for Colab, Kaggle or a Jupyter of one's own: its first cell installs the wheel.

The lessons, answer cells and checks are those of the notebooks for nbgrader; only stubs are in the answer cells.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from grader import __version__
from grader.author import kit
from grader.base import files
from grader.base.language import LANGUAGES, current, use
from grader.base.language import gettext as _
from grader.classes import release
from grader.course import choice, steps

INSTALL = """\
import glob
import importlib
import subprocess
import sys

# The wheel next to this notebook if there is one, else that of the release.
wheels = sorted(glob.glob("attention_from_scratch-*.whl"))[-1:] or {released}
assert wheels, "{missing}"
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wheels], check=True)
importlib.invalidate_caches()

from attention_from_scratch import console

console.start(["{folder}", "--lang", "{language}"])
"""


def write(folder: Path) -> list[Path]:
    """Writes `TRACK.LANGUAGE.ipynb` for every track and language into `folder`, and returns their paths."""
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for track in choice.track_names():
        for spoken in LANGUAGES:
            path = folder / f"{track}.{spoken}.ipynb"
            with use(spoken):
                files.write(path, nbformat.writes(notebook(track)) + "\n")
            written.append(path)
    return written


def notebook(track: str) -> NotebookNode:
    """The notebook of the track with this name, in the language in use."""
    in_track = [step for step in steps.steps() if step.track == track]
    book = release.notebook(in_track)
    stubs = {f"{step.name}-answer": step.stub(current()) for step in in_track}
    cells = [cell for cell in book.cells if not cell.id.endswith("-points")]
    for cell in cells:
        cell.metadata.pop("nbgrader", None)
        if cell.id in stubs:
            cell.source = f"# {cell.id.removesuffix('-answer')}\n{stubs[cell.id]}".strip()
    head = v4.new_markdown_cell(_introduction(in_track[0].track), id="introduction")
    missing = _("Put the wheel of the release into the folder of this notebook.")
    install = INSTALL.format(folder=kit.TOP, language=current(), released=_released(), missing=missing)
    book.cells = [
        head,
        v4.new_code_cell(install.strip(), id="install"),
        *(cell for cell in cells if cell.id != "introduction"),
    ]
    book.metadata.pop("attention", None)
    nbformat.validate(book)
    return NotebookNode(book)


def repository() -> str:
    """The web address of the repository, which a release's workflow knows; empty elsewhere."""
    name = os.environ.get("GITHUB_REPOSITORY")
    return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}" if name else ""


def _released() -> list[str]:
    """The address of this release's wheel, alone in a list; an empty list if the repository's address is not known."""
    address = repository()
    wheel = f"attention_from_scratch-{__version__}-py3-none-any.whl"
    return [f"{address}/releases/download/v{__version__}/{wheel}"] if address else []


def _introduction(track: str) -> str:
    """The first cell of a track's notebook, as Markdown."""
    needed = _(
        "Steps may use earlier ones: if you have them as files, put them into `attention-from-scratch/exercises/`."
    )
    return "\n\n".join(
        [
            "# " + _("Attention from scratch") + f" · {track}",
            _(
                "The next cell installs the kit and makes a folder for it; if it can't download the wheel of the "
                "release, upload that next to this notebook first. Then write your code in the cells that say "
                "`NotImplementedError`, run them, and run the cell below each: it says what is right, what is "
                "wrong, and why."
            ),
            needed,
        ]
    )
