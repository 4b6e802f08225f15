"""The page of a class: it says who and what, in both languages, to eyes and to a screen reader, and runs nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from grader import class_page, class_table, language
from grader.report import status_word
from grader.results import Status
from grader.standings import Standing, StepStanding

MASK, DROPOUT = "step04_causal_mask", "step05_dropout"


def step(name: str, status: Status = "pass", *diagnoses: tuple[str, ...], **more: object) -> StepStanding:
    """A step of four points."""
    score = 4.0 if status == "pass" else 1.0 if status == "fail" else 0.0
    given = {"unexplained": (), "off_limits": False, "blocked_by": None, **more}
    return StepStanding(name, name, status, score, 4.0, diagnoses, **given)  # type: ignore[arg-type]


def student(name: str, *steps: StepStanding) -> Standing:
    """A student who was graded."""
    return Standing(name, name, sum(one.score for one in steps), 8.0, steps)


CLASS = [
    student("ada", step(MASK), step(DROPOUT)),
    student("김민서", step(MASK, "fail", ("masked_after_softmax",)), step(DROPOUT, "fail", ("not_scaled",))),
    student("<b>bob</b>", step(MASK, "fail", ("masked_after_softmax",)), step(DROPOUT, "timeout")),
    student("=1+1", step(MASK, "fail", off_limits=True), step(DROPOUT, "fail", unexplained=("It holds.",))),
    student("both", step(MASK, "fail", ("future_instead_of_past", "hidden_marked_true")), step(DROPOUT, "todo")),
    student("nobody", step(MASK, "todo"), step(DROPOUT, "todo")),
    student("ours", step(MASK, "error"), step(DROPOUT, "skipped", blocked_by=MASK)),
    student("damaged", *(step(name, "fail", unusable="attention.ipynb is damaged.") for name in (MASK, DROPOUT))),
    Standing("broken", "broken", None, 0.0, (), "its process was killed"),
]


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, its text, and whether every tag is closed."""

    VOID = ("meta", "br", "wbr", "img", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes it."""
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It closes the last that is open."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Notes it."""
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """All that is read."""
        return " ".join(" ".join(self.words).split())


def page(standings: list[Standing] = CLASS, spoken: str = "en") -> Page:
    """The page of a class."""
    with language.use(spoken):
        return Page(class_page.html(standings, seed=7, submissions="handed in"))


def test_it_says_what_to_say_tomorrow() -> None:
    """The most common mistake first, in its own words, with who made it."""
    with language.use("en"):
        found = class_page.findings([one for one in CLASS if one.score is not None])
    assert [len(one.students) for one in found] == [2, 1, 1]
    assert found[0].step == MASK and [one.student for one in found[0].students] == ["김민서", "<b>bob</b>"]
    assert len(found[1].wordings) == 2  # one of two that can't be told apart
    said = page().text
    assert "The most common mistake is in step04_causal_mask, of 2 of 8 students" in said
    assert found[0].wordings[0].what in said and found[0].wordings[0].why in said and found[0].wordings[0].nudge in said


def test_who_needs_a_look_is_named_with_the_reason() -> None:
    """An error, a timeout, something off limits or damaged, nothing handed in, our own fault; and nobody else."""
    with language.use("en"):
        concerns = {one.standing.student: " ".join(one.reasons) for one in class_page.concerns(CLASS)}
    assert set(concerns) == {"<b>bob</b>", "=1+1", "nobody", "ours", "broken", "damaged"}
    assert concerns["damaged"] == "What was handed in can't be used as it is: attention.ipynb is damaged."
    assert "in time" in concerns["<b>bob</b>"] and "off limits" in concerns["=1+1"]
    assert "nothing" in concerns["nobody"] and "grader itself" in concerns["ours"]
    assert "no score" in concerns["broken"] and "killed" in concerns["broken"]


def test_who_could_not_be_graded_is_in_no_figure() -> None:
    """Neither a zero in the mean nor a bar among the scores, and said in words in the grid."""
    with language.use("en"):
        graded = [one for one in CLASS if one.score is not None]
        assert sum(one.count for one in class_page.bins(graded)) == len(graded)
        assert dict(class_page._facts(CLASS, graded, 7))["not graded"] == "1"
    assert "! not graded" in page().text


def test_the_ranges_of_scores_leave_nothing_out() -> None:
    """Each share of the points has its line, 0 and 100 included."""
    for score in (0.0, 0.79, 0.8, 4.0, 7.99, 8.0):
        one = Standing("a", "a", score, 8.0, ())
        assert sum(part.count for part in class_page.bins([one])) == 1
    assert class_page.bins([Standing("a", "a", 8.0, 8.0, ())])[0].count == 1
    assert class_page.bins([Standing("a", "a", 7.99, 8.0, ())])[0].count == 0


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_no_status_is_a_colour_or_a_symbol_alone(spoken: str) -> None:
    """Each cell of the grid holds its word; the symbol is kept from screen readers."""
    with language.use(spoken):
        text = class_page.html(CLASS, seed=7, submissions="x")
        cells = re.findall(r'<td class="(pass|fail|timeout|skipped|todo|error)">(.*?)</td>', text)
        assert len(cells) == 16
        for status, inside in cells:
            assert f'<span class="unseen">{status_word(status)},</span>' in inside
            assert '<span aria-hidden="true">' in inside


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_it_needs_nothing_else_and_runs_nothing(spoken: str) -> None:
    """No script, nothing that is loaded, names as text, links only to the students' pages and inside the page."""
    whole = page(spoken=spoken)
    assert whole.open == []
    for tag, attributes in whole.tags:
        assert tag not in ("script", "img", "link", "iframe", "form", "object", "b>bob")
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        if "href" in attributes:
            assert re.fullmatch(r"#\w+|pages/[\w%.~+=-]+\.html", attributes["href"] or "")
    assert ("html", {"lang": spoken}) in whole.tags
    assert "<b>bob</b>" in whole.text


def test_a_screen_reader_finds_its_way() -> None:
    """One heading of the first level, none skipped, sections and tables named by headings and heads."""
    whole = page()
    levels = [int(tag[1]) for tag, _attributes in whole.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    ids = {attributes["id"] for _tag, attributes in whole.tags if "id" in attributes}
    for _tag, attributes in whole.tags:
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids
    assert all("scope" in attributes for tag, attributes in whole.tags if tag == "th")


def test_korean_is_korean() -> None:
    """Every sentence and every misconception; names of steps and of students stay."""
    said = page(spoken="ko").text
    for name in (
        "ada",
        "<b>bob</b>",
        "broken",
        "both",
        "nobody",
        "ours",
        "attention.ipynb is damaged.",
        "damaged",
        "its process was killed",
        "It holds.",
    ):
        said = said.replace(name, "")
    said = re.sub(r"step\d\d_\w+|python -m grader class .* --again|scores|causal mask|dropout|GPT|seed", "", said)
    terms = {"attention", "True", "causal", "mask", "step"}  # beside the Korean word, or code
    assert set(re.findall(r"[A-Za-z]{4,}", said)) <= terms


@pytest.mark.parametrize("standings", [[], [CLASS[-1]], [CLASS[0]], [CLASS[-3]]])
def test_any_class_has_a_page(standings: list[Standing]) -> None:
    """Nobody graded, one student, all right, nothing handed in."""
    assert page(standings).open == []
    class_table.terminal(standings, 0)


def test_thousands_of_students_fit() -> None:
    """A page that a browser opens: some hundred bytes a cell."""
    many = [student(f"student{number}", step(MASK, "fail", ("masked_after_softmax",))) for number in range(3000)]
    with language.use("en"):
        assert len(class_page.html(many, seed=7, submissions="x")) < 1_500_000


def test_a_diagnosis_without_words_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the misconceptions are not at hand, the name stands for itself."""
    with language.use("en"):
        [finding] = class_page.findings([student("a", step("step99_none", "fail", ("some_name",)))])
    assert finding.wordings[0].what == "some_name"


def test_a_fault_of_the_grader_is_told_as_it_is() -> None:
    """Its points were given: whoever reads the page must not give them once more."""
    (concern,) = class_page.concerns([student("ours", step(MASK, "error"))])
    assert "no points were taken" in concern.reasons[0]
