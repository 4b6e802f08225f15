"""One Korean word for one thing: every Korean text of the kit keeps to `docs/glossary.ko.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.base import paths

GLOSSARY = paths.ROOT / "docs" / "glossary.ko.md"
PATTERNS = (
    "README.ko.md", "docs/*.ko.md", "grader/locale/ko.po", "solutions/**/*.ko.md", "solutions/**/ko.po",
)  # fmt: skip
FILES = sorted(file for pattern in PATTERNS for file in paths.ROOT.glob(pattern) if file != GLOSSARY)


def rows() -> list[list[str]]:
    """The cells of each term: English, Korean, what is not written, what is fine all the same."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return cells[2:]


def unwanted() -> re.Pattern[str]:
    """Finds a word of the third column, unless it begins one of the fourth."""
    found = []
    for _english, _korean, wrong, fine in rows():
        but = "".join(f"(?!{re.escape(word.strip())})" for word in fine.split(",") if word.strip())
        found += [f"{but}{re.escape(word.strip())}" for word in wrong.split(",") if word.strip()]
    return re.compile(f"(?<![가-힣])(?:{'|'.join(found)})")


def test_the_glossary_has_one_row_for_a_term() -> None:
    english = [row[0] for row in rows()]
    assert english == sorted(set(english), key=str.lower)
    assert all(len(row) == 4 and row[1] and row[2] for row in rows())


def test_the_test_finds_what_it_looks_for() -> None:
    assert [found[0] for found in unwanted().finditer("인과 마스크, 인과성, 확인과, 짝수, 짝이, 레이어")] == [
        "인과",
        "짝",
        "레이어",
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(paths.ROOT).as_posix())
def test_a_korean_text_keeps_to_the_glossary(file: Path) -> None:
    pattern = unwanted()
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [f"{number}: {line.strip()[:100]}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if paths.ROOT / "solutions" in file.parents],
    ids=lambda file: file.relative_to(paths.ROOT).as_posix(),
)
def test_a_score_is_no_mark(file: Path) -> None:
    """In lessons and mistakes 점수, the points of a mark, is not written for a score; what gives points may do so."""
    assert re.findall(r"점수(?!를 매)", file.read_text(encoding="utf-8")) == []
