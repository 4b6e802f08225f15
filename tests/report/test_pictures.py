"""Pictures drawn from numbers: of lessons, by the reference, and of answers that are turned or run in waves."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import nbformat
import pytest
import torch

from grader.base import language, paths
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.classes import release
from grader.course import lessons
from grader.course.steps import Step
from grader.oracle import pictures as drawn_by
from grader.report import lesson_page, page, pictures, svg
from grader.report.page import TEMPLATES
from tests.report import test_browser as browser

PICTURED = paths.step_folders()
PHRASE = re.compile(r">([a-z]+(?: [a-z]+)+)</text>")  # of English, in a picture
each_pictured = pytest.mark.parametrize("folder", PICTURED, ids=lambda folder: folder.name)


def named(folder: Path, spoken: str) -> list[str]:
    """The pictures that a lesson shows, in order."""
    text = (folder / f"lesson.{spoken}.md").read_text(encoding="utf-8")
    assert text.count("(picture:") == len(lesson_page.PLACE.findall(text)), "each in a line of its own"
    return [match["name"] for match in lesson_page.PLACE.finditer(text)]


def parting(expected: torch.Tensor, got: torch.Tensor, drawn_as: str) -> Parting:
    """Two matrices that differ."""
    differs = expected != got
    place = differs.nonzero()[0].tolist()
    return Parting(
        expected=expected.tolist(), got=got.tolist(), differs=differs.tolist(), slice=[], place=place,
        drawn_as=drawn_as,  # type: ignore[arg-type]
    )  # fmt: skip


@each_pictured
def test_a_lesson_shows_each_of_its_pictures(folder: Path) -> None:
    """One or more, in both languages, in the same order; nothing is drawn for nobody."""
    english, korean = (named(folder, spoken) for spoken in language.LANGUAGES)
    assert english == korean
    assert set(english) == drawn_by.pictures(folder).keys() != set()


@each_pictured
def test_pictures_speak_korean(folder: Path) -> None:
    """Titles, axes and labels are translated, and so is what is told to who can't see them."""
    with language.use("ko"):
        shown = [lesson_page.figure(picture, name) for name, picture in drawn_by.pictures(folder).items()]
    assert [phrase for picture in shown for phrase in PHRASE.findall(picture)] == []


@each_pictured
def test_a_lesson_in_a_page_needs_nothing_else(folder: Path) -> None:
    """Its pictures are in it, in the page's colours, without a script."""
    with language.use("ko"):
        text = lesson_page.fragment((folder / "lesson.ko.md").read_text(encoding="utf-8"), drawn_by.pictures(folder))
    assert text.count("<figure ") == len(named(folder, "ko"))
    assert text.count("<svg") >= text.count("<figure ")
    assert "picture:" not in text
    assert not re.search(r'<(img|link|script)\b|src="http', text)


@each_pictured
def test_what_a_learners_copy_keeps_is_what_is_drawn(folder: Path) -> None:
    """As JSON, small, and the same again when it is read, in each language."""
    kept = drawn_by.kept(folder)
    read = msgspec.json.decode(kept, type=dict[str, dict[str, pictures.Picture]])
    assert all(len(msgspec.json.encode(made)) < 40_000 for made in read.values())
    for spoken in language.LANGUAGES:
        with language.use(spoken):
            for name, picture in drawn_by.pictures(folder).items():
                shown = read.get(spoken, read["en"])[name]
                assert lesson_page.figure(shown, "words") == lesson_page.figure(picture, "words")


def test_a_copy_without_references_draws_what_it_keeps(tmp_path: Path) -> None:
    folder = tmp_path / "step13_patterns"
    folder.mkdir()
    assert drawn_by.pictures(folder) == {}
    (folder / drawn_by.KEPT).write_bytes(b"{")
    assert drawn_by.pictures(folder) == {}
    (folder / drawn_by.KEPT).write_bytes(drawn_by.kept(PICTURED[0]))
    assert drawn_by.pictures(folder).keys() == drawn_by.pictures(PICTURED[0]).keys()


def frames(folder: Path) -> list[pictures.Still]:
    """All that the pictures of a step can show."""
    found: list[pictures.Still] = []
    for picture in drawn_by.pictures(folder).values():
        found += (
            [still for frame in picture.frames for still in frame]
            if isinstance(picture, pictures.Slider)
            else [picture]
        )
    return found


@each_pictured
def test_no_picture_is_wider_than_a_phone(folder: Path) -> None:
    """Panels wrap, and none is cut or scrolls."""
    for still in frames(folder):
        for panel in lesson_page.panels(still):
            assert int(re.search(r'<svg width="(\d+)"', panel)[1]) <= svg.WIDEST  # type: ignore[index]


@each_pictured
def test_a_slider_shows_one_frame_and_says_its_value(folder: Path) -> None:
    """Without scripts one frame stands there; a frame each for the values that the slider goes through."""
    for name, picture in drawn_by.pictures(folder).items():
        shown = lesson_page.figure(picture, name)
        if isinstance(picture, pictures.Slider):
            assert len(picture.frames) == len(picture.values) > 1
            assert shown.count('class="frame"') - shown.count(" hidden>") == 1
            assert f'max="{len(picture.frames) - 1}"' in shown
            assert len({str(lesson_page.figure(picture, name)) for picture in map(_only, picture.frames)}) > 1
        else:
            assert "slider" not in shown


def _only(frame: list[pictures.Still]) -> pictures.Slider:
    return pictures.Slider(label="", values=["0"], frames=[frame])


def test_a_terminal_shows_no_line_for_a_picture() -> None:
    """But the command that draws it."""
    text = lessons.reading("step13_patterns")
    assert "picture:" not in text
    assert "make lesson STEP=13 PAGE=1" in text


def test_a_notebook_has_the_pictures_of_its_lessons() -> None:
    """As attachments of the cell, which every notebook shows without a network."""
    made = release.notebook([Step(PICTURED[0])])
    nbformat.validate(made)
    cell = next(cell for cell in made.cells if cell.id.endswith("-lesson"))
    attached = cell.attachments
    assert set(re.findall(r"\(attachment:([\w.-]+)\)", cell.source)) == attached.keys() != set()
    for image in attached.values():
        svg = base64.b64decode(image["image/svg+xml"]).decode()
        assert svg.startswith("<svg xmlns=")
        assert "#ffffff" in svg


# --- answers ---------------------------------------------------------------------------------------------------------


def test_a_turn_is_drawn_as_arrows() -> None:
    """A pair of columns each, the expected arrows and the learner's, one for each row."""
    angle = torch.tensor([0.0, 1.0, 2.0])
    right = torch.stack([angle.cos(), angle.sin(), angle.cos(), angle.sin()], 1)
    wrong = right.clone()
    wrong[:, 3] *= -1
    picture = pictures.of_parting(parting(right, wrong, "arrows"))
    assert isinstance(picture, pictures.Arrows)
    assert [title for title, _sets in picture.panels] == ["2, 3"]
    expected, yours = picture.panels[0][1]
    assert yours == [(u, -v) for u, v in expected]
    (svg,) = pictures.drawn(picture, "columns {title}")
    assert svg.count("<path") == 2 * 3 + 2  # and two in the legend
    assert "columns 2, 3" in svg


def test_waves_are_drawn_as_curves() -> None:
    """Of the columns that differ, and no other."""
    right = torch.arange(12.0).view(6, 2)
    wrong = right.clone()
    wrong[3, 1] = 0
    picture = pictures.of_parting(parting(right, wrong, "curves"))
    assert isinstance(picture, pictures.Curves)
    assert [title for title, _lines in picture.panels] == ["1"]
    assert picture.panels[0][1] == [right[:, 1].tolist(), wrong[:, 1].tolist()]


@pytest.mark.parametrize("drawn_as", ["", "arrows", "curves"])
def test_what_can_not_be_drawn_is_left_out(drawn_as: str) -> None:
    """The heat map is there whatever the numbers are."""
    right, wrong = torch.ones(2, 3), torch.ones(2, 3)
    wrong[0, 0] = float("nan")
    assert pictures.of_parting(parting(right, wrong, drawn_as)) is None
    assert page.heat_map(parting(right, wrong, drawn_as), "name").further is None


def test_a_page_shows_both_pictures_of_a_turn() -> None:
    """In a page as SVG, in a notebook as images."""
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    shown = page.heat_map(parting(right, -right, "arrows"), "name")
    assert shown.further is not None
    assert shown.further.panels[0].startswith("<svg")
    assert shown.further.images[0].startswith("data:image/svg+xml;base64,")


@pytest.mark.parametrize("of", [page.html, page.fragment])
def test_a_report_holds_the_arrows(of: Callable[[Report], str]) -> None:
    """Beside the heat map, in the page and in what a notebook shows."""
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    check = CheckResult(
        name="test_turn", title="A turn.", device="cpu", status="fail", points=0.0, max_points=1.0,
        message="got       another turn", parting=parting(right, -right, "arrows"),
    )  # fmt: skip
    step = StepResult(
        name="step18_rotary", title="Rotary", status="fail", score=0.0, max_score=1.0, seconds=0.0, checks=[check]
    )
    made = of(
        Report(
            submission="me", seed=1, isolation=[], devices={"cpu": "checked"}, score=0.0, max_score=1.0, steps=[step]
        )
    )
    assert made.count("Pairs of columns as arrows") >= 2
    assert ("<img" in made) is (of is page.fragment)


def test_ticks_are_round_numbers() -> None:
    axes = pictures._Axes(0, 0.0, 47.0, -0.99, 1.0, logarithmic=False)
    assert axes.ticks(0.0, 47.0) == [0, 10, 20, 30, 40]
    assert axes.ticks(-0.99, 1.0) == [-0.5, 0, 0.5, 1]
    assert pictures._Axes(0, 1, 1e6, 1, 1e6, logarithmic=True).ticks(1, 1e6) == [1, 100, 10_000, 1_000_000]


# --- in a browser ----------------------------------------------------------------------------------------------------

MOVED = """
<script>
addEventListener("load", () => {
  const figure = document.querySelector("figure"), range = figure.querySelector("input");
  const seen = () =>
    [...figure.querySelectorAll(".frame")].filter(one => one.offsetHeight > 0).map(one => one.dataset.value);
  const before = seen();
  range.value = 0;
  range.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.dataset.measured = JSON.stringify({
    before, after: seen(), said: figure.querySelector("output").value, slider: range.offsetWidth,
    wide: document.documentElement.clientWidth, whole: document.documentElement.scrollWidth,
  });
});
</script>
"""


@pytest.mark.thorough
@pytest.mark.skipif(browser.BROWSER is None, reason="no Chromium was found on the path: nothing to look with")
@pytest.mark.parametrize("width", [1200, 390])
def test_a_slider_moves(width: int, tmp_path: Path) -> None:
    """To its first frame and no other, with the value said; nothing makes the page wider than a phone."""
    seen = browser.measured(page_of_step_2().replace("</body>", MOVED + "</body>"), width, tmp_path)
    assert seen["before"] == ["1"]
    assert seen["after"] == ["0.1"]
    assert seen["said"] == "0.1"
    assert seen["slider"] > 80
    assert seen["whole"] <= seen["wide"]


def page_of_step_2() -> str:
    """Its lesson, as the course's page shows it."""
    folder = paths.step_folder("step02_softmax")
    lesson = lesson_page.fragment((folder / "lesson.en.md").read_text(encoding="utf-8"), drawn_by.pictures(folder))
    style = (paths.ROOT / "grader" / "web" / "assets" / "course.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "pictures.js").read_text(encoding="utf-8")
    shown = f'<main class="middle"><article class="lesson">{lesson}</article></main>'
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{shown}<script>{script}</script></body></html>"
