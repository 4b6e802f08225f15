"""Korean as it is written: particles that fit the syllable before them, and one word for a score."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest

from grader.author import translations
from grader.base import files, language, mistakes
from grader.base.paths import ROOT, SOLUTIONS, step_folders

CATALOGUES = sorted(SOLUTIONS.glob("*/*/ko.po"))
TEXTS = [*ROOT.glob("*.ko.md"), *ROOT.glob("docs/*.ko.md"), *SOLUTIONS.glob("**/*.ko.md")]
# What follows a syllable with a final consonant, and what one without: `값을`, `키를`. `는` ends many verbs, too.
AFTER_A_CONSONANT, AFTER_A_VOWEL = ("을", "은", "과"), ("를", "와")
WORDS = {"초과", "경로", "모은", "이을", "지을", "짝지을"}  # the last syllable is no particle
# 이 and 가 end other words as well: they are looked at behind these nouns.
NOUNS = re.compile(
    r"(?<![가-힣])(레퍼런스|마스크|코드|캐시|페이지|헤드|쿼리|키|시퀀스|디코더|인코더|가중치|스코어|토큰|어텐션|모델|텐서|손실|커널|패치|행렬|"
    r"문장|단어|실습|강의|단계|힌트|점수)(이|가)(?=[ ,.]|$)"
)
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
            **dict.fromkeys(AFTER_A_CONSONANT, before != 0),
            **dict.fromkeys(AFTER_A_VOWEL, before == 0),
            "로": before in (0, RIEUL),
            "으로": before not in (0, RIEUL),
        }
        if not wanted[particle] and match[0] not in WORDS:
            found.append(match[0])
    found += [noun[0] for noun in NOUNS.finditer(text) if (final(noun[1][-1]) != 0) is not (noun[2] == "이")]
    return found


def test_a_misfit_is_found() -> None:
    """What the test would say of the slips that it is for."""
    assert misfits("레퍼런스이 없어서 모델이 토큰가 본다") == ["레퍼런스이", "토큰가"]
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


def doubled(text: str) -> list[str]:
    """The longer sentences of a text that stand in it twice."""
    sentences = [" ".join(said.split()) for said in re.split(r"(?<=[.?!])\s", text)]
    return [said for said in dict.fromkeys(sentences) if len(said) > 20 and sentences.count(said) > 1]


def test_a_doubled_sentence_is_found() -> None:
    """Also where its lines are broken elsewhere."""
    once = "입력은 바꾸지 않고, 뒤의 호출이 앞선 결과를 바꾸지도 않습니다."
    assert doubled(f"{once} 짧은 문장. 짧은 문장.\n\n{once.replace('뒤의 ', '뒤의' + chr(10))}") == [once]


@pytest.mark.parametrize("path", [*CATALOGUES, language.CATALOGUES / "ko.po"], ids=lambda path: path.parent.name)
def test_no_sentence_of_a_text_is_doubled(path: Path) -> None:
    """A contract in a stub, say, says each thing once."""
    assert not [twice for said in language.catalogue(path).values() for twice in doubled(said)]


def several(sources: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The English sentences that have more than one translation: at run time only one of them is ever shown."""
    every: dict[str, set[str]] = {}
    for english, korean in sources:
        every.setdefault(english, set()).add(korean)
    return {english: korean for english, korean in every.items() if len(korean) > 1}


def test_a_second_translation_is_found() -> None:
    """And one that is there twice in the same words is none."""
    assert several([("step", "단계"), ("step", "스텝"), ("seed", "시드"), ("seed", "시드")]) == {
        "step": {"단계", "스텝"}
    }


def test_a_sentence_has_one_translation() -> None:
    """Whichever catalogue it stands in: the engine's, a step's, or the texts of its mistakes."""
    folders = [folder for folder in step_folders() if mistakes.files_of(folder)]
    catalogues = [language.catalogue(path).items() for path in [language.CATALOGUES / "ko.po", *CATALOGUES]]
    assert not several(chain(*catalogues, *map(mistakes.translations, folders)))


# --- how catalogues are kept -----------------------------------------------------------------------------------------


def test_one_step_is_collected_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make messages STEP=4` reads and writes that step's folder and no other."""
    read: list[str] = []
    collected = translations.step_messages
    monkeypatch.setattr(translations, "step_messages", lambda folder: read.append(folder.name) or collected(folder))
    monkeypatch.setattr(translations, "engine_messages", lambda: pytest.fail("the engine's sentences were collected"))
    written: list[Path] = []
    monkeypatch.setattr(files, "write", lambda path, content: written.append(path))
    assert len(list(translations.update(["step04_causal_mask"]))) == 1
    assert read == ["step04_causal_mask"] and [path.parent.name for path in written] == read


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt, OSError])
def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: type[BaseException]
) -> None:
    """A catalogue too: Ctrl-C while it is written leaves the old one, and nothing beside it."""

    def half(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise stopped_by

    catalogue = tmp_path / "ko.po"
    catalogue.write_bytes((language.CATALOGUES / "ko.po").read_bytes())
    monkeypatch.setattr(translations, "CATALOGUES", tmp_path)
    monkeypatch.setattr(translations.paths, "ROOT", tmp_path)
    monkeypatch.setattr(translations, "engine_messages", lambda: iter(["One sentence."]))
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(stopped_by):
        next(translations.update())
    assert catalogue.read_bytes() == (language.CATALOGUES / "ko.po").read_bytes()
    assert list(tmp_path.iterdir()) == [catalogue]


def test_no_sentence_is_inside_another_string() -> None:
    """Babel finds none within an f-string: unless it stands elsewhere too, it would stay English."""
    known, hidden = language.catalogue(language.CATALOGUES / "ko.po"), []
    for path in sorted((ROOT / "grader").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for one in ast.walk(node) if isinstance(node, ast.JoinedStr) else ():
                match one:
                    case ast.Call(func=ast.Name(id="_"), args=[ast.Constant(value=str() as said), *_rest]):
                        hidden += [f"{path.name}: {said}"] if said not in known else []
    assert hidden == []
