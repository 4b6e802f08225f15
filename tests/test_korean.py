"""Korean as it is written: particles that fit the syllable before them, and one word for a score."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.base import language
from grader.base.paths import ROOT, SOLUTIONS

CATALOGUES = sorted(SOLUTIONS.glob("*/*/ko.po"))
TEXTS = [*ROOT.glob("*.ko.md"), *ROOT.glob("docs/*.ko.md"), *SOLUTIONS.glob("**/*.ko.md")]
# What follows a syllable with a final consonant, and what one without: `값을`, `키를`. `는` ends many verbs, too.
AFTER_A_CONSONANT, AFTER_A_VOWEL = ("을", "은", "과"), ("를", "와")
WORDS = {"초과", "경로", "모은", "이을", "지을", "짝지을"}  # the last syllable is no particle
RIEUL = 8  # 로 follows it as it follows a vowel: `셀로`


def final(syllable: str) -> int:
    """The number of a Hangul syllable's final consonant, 0 where there is none."""
    return (ord(syllable) - ord("가")) % 28


def misfits(text: str) -> list[str]:
    """The words that end in the wrong one of two particles."""
    found = []
    for match in re.finditer(r"([가-힣]+?)(으로|로|을|은|과|를|와)(?![가-힣])", text):
        before, particle = final(match[1][-1]), match[2]
        wanted = {
            **dict.fromkeys(AFTER_A_CONSONANT, before != 0), **dict.fromkeys(AFTER_A_VOWEL, before == 0),
            "로": before in (0, RIEUL), "으로": before not in (0, RIEUL),
        }  # fmt: skip
        if not wanted[particle] and match[0] not in WORDS:
            found.append(match[0])
    return found


def test_a_misfit_is_found() -> None:
    """What the test would say of the slips that it is for."""
    assert misfits("창를 컨텍스트을 값으로 키로 셀로 창와 키과 행로 열으로") == [
        "창를",
        "컨텍스트을",
        "창와",
        "키과",
        "행로",
        "열으로",
    ]


@pytest.mark.parametrize("path", [*CATALOGUES, language.CATALOGUES / "ko.po"], ids=lambda path: path.parent.name)
def test_particles_of_a_catalogue(path: Path) -> None:
    """Each sentence of a catalogue."""
    wrong = {said: found for said in language.catalogue(path).values() if (found := misfits(said))}
    assert not wrong


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_particles_of_a_text(path: Path) -> None:
    """Each lesson and page."""
    assert not misfits(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parent.name)
def test_a_score_is_no_mark(path: Path) -> None:
    """점수 is what a check gives; what a query and a key make is a 스코어."""
    assert not [english for english, said in language.catalogue(path).items() if "점수" in said]
