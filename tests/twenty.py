"""Twenty made-up people, as they hand in, and what each hand-in is worth; and the rule that nothing of it vanishes."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

from rich.console import Console

from grader.classes import class_run
from grader.feedback import class_table
from tests import cheap
from tests.cheap import rows

GRADED = cheap.GRADED
NAMES, RIGHT = cheap.NAMES, cheap.RIGHT

# --- twenty people, as they hand in ----------------------------------------------------------------------------------

HANGUL = "# 한글 주석\n"
CELL = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
Files = dict[str, bytes]


def step(*numbers: int) -> Files:
    """Step files under their own names."""
    return {f"{NAMES[number]}.py": RIGHT[number].encode() for number in numbers}


def notebook(*sources: str, marked: int = 99) -> bytes:
    """A notebook: the first `marked` cells begin with the name of their step."""
    cells = [dict(CELL, source=source) for source in sources]
    for number, cell in enumerate(cells[:marked], 1):
        cell["source"] = f"# {NAMES[number]}\n{cell['source']}"
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


OPEN = "open"
# What each hands in, and what it is worth: 10 points a step, or open.
PEOPLE: dict[str, tuple[Files, float | str]] = {
    "ada": (step(1, 2, 3), 30),
    "brook": (step(1, 2), 20),
    "chen": ({**step(1), "softmax.py": RIGHT[2].encode(), "attention3.py": RIGHT[3].encode()}, 30),
    "dora": ({**step(1), f"{NAMES[2]}.txt": RIGHT[2].encode(), NAMES[3]: RIGHT[3].encode()}, 30),
    "emre": ({"X.IPYNB": notebook(RIGHT[1], RIGHT[2], RIGHT[3])}, 30),
    "fatima": ({"attention.ipynb": notebook(RIGHT[1], RIGHT[2], RIGHT[3], marked=2)}, 30),
    "grace": ({**step(1), "step1.py": b"print('a first try')\n", "essay.docx": b"PK", "plot.png": b"\x89PNG"}, 10),
    "hana": ({**step(2, 3), f"{NAMES[1]}.py": ("# coding: cp949\n" + HANGUL + RIGHT[1]).encode("cp949")}, 30),
    "ines": ({**step(2, 3), f"{NAMES[1]}.py": (HANGUL + RIGHT[1]).encode("cp949")}, OPEN),
    "jin": ({**step(2, 3), f"{NAMES[1]}.py": RIGHT[1].encode("utf-16")}, OPEN),
    "kofi": ({**step(2, 3), f"{NAMES[1]}.py": ("# naïve\n" + RIGHT[1]).encode("latin-1")}, OPEN),
    "lena": ({"attention.ipynb": notebook(RIGHT[1], RIGHT[2], RIGHT[3])[:-80]}, OPEN),
    "mina": ({"attention.ipynb": b"<<<<<<< HEAD\n" + notebook(RIGHT[1])}, OPEN),
    "noor": ({"attention.ipynb": notebook(RIGHT[1]).replace(b'"nbformat": 4', b'"nbformat": 3').replace(
        b'"cells"', b'"worksheets"')}, OPEN),
    "olga": ({**step(2), f"{NAMES[1]}-1.py": RIGHT[1].encode(), f"{NAMES[1]}-2.py": b"x = 1\n"}, OPEN),
    "park": ({"Homework1.pdf": b"%PDF"}, OPEN),
    "quinn": ({"work.zip": b"PK"}, OPEN),
    "rosa": ({f"{NAMES[1]} (1).py": b"\xef\xbb\xbf" + RIGHT[1].replace("\n", "\r\n").encode(),
              f"{NAMES[2].upper()}.PY": RIGHT[2].encode()}, 20),
    "sami": ({**step(1), "helper.py": b"x = 1\n", "unused.py": b"y = 1\n", ".hidden": b"z",
              f"{NAMES[3]}.py": b"\n"}, 10),
    "tove": ({**step(1, 2), f"{NAMES[3]}.py": b"def attention(:\n"}, 20),
}  # fmt: skip
NAMED = {"helper.py", "unused.py", ".hidden", "essay.docx", "plot.png", "step1.py", f"{NAMES[3]}.py"}


def put(path: Path, content: bytes) -> None:
    """A file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def accounted_for(submissions: Path, out: Path, done: class_run.Done) -> None:
    """Compares `files.csv` with what is on the disk, and what was not read with what is said."""
    table = rows(out / "files.csv")
    assert all(row["what became of it"] for row in table)
    said = " ".join(row["file"] for row in table)
    for place, _folders, names in os.walk(submissions):
        for name in names:
            path = (Path(place) / name).relative_to(submissions)
            parts = [*path.parts, *(name[place.end() :] for place in re.finditer("_", name))]
            programs = {"submission_metadata.yml", "index.html", "__MACOSX", ".DS_Store", ".git"} & set(path.parts)
            assert programs or any(f"{part}" in said for part in parts), path
    page = (out / "index.html").read_text(encoding="utf-8")
    by_student = {row["student"]: row for row in rows(out / "class.csv")}
    for one in done.standings:
        for file, reason in one.unread:
            assert reason and file in by_student[one.student]["unread"] + by_student[one.student]["error"]
            assert html(file) in page or one.error
        if one.score is None:
            assert by_student[one.student]["status"] == "error" and len(one.error) > 20
    screen = Console(width=4000, record=True, file=io.StringIO())
    screen.print(class_table.terminal(done.standings, done.kept))
    shown = screen.export_text()
    assert all(one.student in shown for one in done.standings)


def html(text: str) -> str:
    """Text as a page escapes it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&#34;").replace("'", "&#39;")
