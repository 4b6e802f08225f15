"""The page of a class: it says who and what, in both languages, to eyes and to a screen reader, and runs nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from rich.console import Console

from grader.base import language
from grader.base.results import CheckResult, Graded, Report, Status, StepResult, step_status
from grader.feedback import class_page, class_table
from grader.feedback.standings import Standing, StepStanding, standing
from grader.report.terminal import status_word

MASK, DROPOUT = "step04_causal_mask", "step05_dropout"


def step(name: str, status: Status = "pass", *diagnoses: tuple[str, ...], **more: object) -> StepStanding:
    """A step of four points."""
    score = 4.0 if status == "pass" else 1.0 if status == "fail" else 0.0
    given = {"title": name, "status": status, "score": score, "max_score": 4.0, "diagnoses": diagnoses, **more}
    return StepStanding(name=name, **given)  # type: ignore[arg-type]


def student(name: str, *steps: StepStanding) -> Standing:
    """A student who was graded."""
    return Standing(student=name, file=name, key="", score=sum(one.score for one in steps), max_score=8.0, steps=steps)


CLASS = [
    student("ada", step(MASK), step(DROPOUT)),
    student("김민서", step(MASK, "fail", ("masked_after_softmax",)), step(DROPOUT, "fail", ("not_scaled",))),
    student("<b>bob</b>", step(MASK, "fail", ("masked_after_softmax",)), step(DROPOUT, "timeout")),
    student("=1+1", step(MASK, "fail", off_limits=True), step(DROPOUT, "fail", unexplained=("It holds.",))),
    student("both", step(MASK, "fail", ("future_instead_of_past", "hidden_marked_true")), step(DROPOUT, "todo")),
    student("nobody", step(MASK, "todo"), step(DROPOUT, "todo")),
    student("ours", step(MASK, "error"), step(DROPOUT, "skipped", blocked_by=MASK)),
    student("damaged", *(step(name, "fail", message="attention.ipynb is damaged.") for name in (MASK, DROPOUT))),
    Standing(student="broken", file="broken", key="", error="its process was killed"),
]


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, its text, and whether every tag is closed."""

    VOID = ("input", "meta", "br", "wbr", "img", "link")

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
    assert "The most common mistake is in step04_causal_mask, made by 2 of 8 students" in said
    assert found[0].wordings[0].what in said and found[0].wordings[0].why in said and found[0].wordings[0].nudge in said


def test_who_needs_a_look_is_named_with_the_reason() -> None:
    """An error, a timeout, something off limits or damaged, nothing handed in; and nobody else, each under a reason."""
    with language.use("en"):
        told = {
            concern.reason.partition(":")[0]: {one.student: about for one, about in concern.students}
            for concern in class_page.concerns(CLASS)
        }
    assert told == {
        "No mark yet": {"broken": "its process was killed"},
        "No step was started": {"nobody": ""},
        "Files that can't be read, and for which a person decided": {"damaged": "attention.ipynb is damaged."},
        "A built-in that is off limits was used": {"=1+1": MASK},
        "The code timed out": {"<b>bob</b>": DROPOUT},
    }


def test_who_could_not_be_graded_is_in_no_figure() -> None:
    """Neither a zero in the mean nor a bar among the scores, and said in words in the grid."""
    with language.use("en"):
        graded = [one for one in CLASS if one.score is not None]
        assert sum(one.count for one in class_page.bins(graded)) == len(graded)
        assert dict(class_page._facts(CLASS, graded))["not graded"] == "1"
    assert "! not graded" in page().text


def test_the_ranges_of_scores_leave_nothing_out() -> None:
    """Each share of the points has its line, 0 and 100 included."""
    for score in (0.0, 0.79, 0.8, 4.0, 7.99, 8.0):
        one = Standing(student="a", file="a", key="", score=score, max_score=8.0)
        assert sum(part.count for part in class_page.bins([one])) == 1
    assert class_page.bins([Standing(student="a", file="a", key="", score=8.0, max_score=8.0)])[0].count == 1
    assert class_page.bins([Standing(student="a", file="a", key="", score=7.99, max_score=8.0)])[0].count == 0


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_no_status_is_a_colour_or_a_symbol_alone(spoken: str) -> None:
    """Each cell of the grid holds its word; the symbol is kept from screen readers."""
    with language.use(spoken):
        text = class_page.html(CLASS, seed=7, submissions="x")
        cells = re.findall(r'<td class="(pass|fail|timeout|skipped|todo|error)">(.*?)</td>', text)
        assert len(cells) == 16
        for status, inside in cells:
            words = {status_word(status, blocked_by) for blocked_by in (None, MASK)}
            assert any(f'<span class="unseen">{word},</span>' in inside for word in words)
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
    said = re.sub(r"\w+\.csv|Canvas|Moodle|Gradescope", "", said)  # names of files and of systems
    terms = {"attention", "True", "causal", "mask", "step"}  # beside the Korean word, or code
    assert set(re.findall(r"[A-Za-z]{4,}", said)) <= terms


@pytest.mark.parametrize("standings", [[], [CLASS[-1]], [CLASS[0]], [CLASS[-3]]])
def test_any_class_has_a_page(standings: list[Standing]) -> None:
    """Nobody graded, one student, all right, nothing handed in."""
    assert page(standings).open == []
    class_table.terminal(standings, 0)


def test_references_in_place_are_told_in_the_terminal() -> None:
    """After the counts, as the number of students."""
    with language.use("en"):
        shown = Console(width=120, no_color=True)
        with shown.capture() as said:
            shown.print(class_table.terminal([student("ada", step(MASK), step(DROPOUT, references=[MASK]))], 0))
    assert "on the reference of an earlier one: 1." in said.get()


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


def report_of(name: str, *checks: CheckResult, **more: object) -> Standing:
    """A student whose only step has these checks."""
    result = StepResult(
        name=MASK, title=MASK, status=step_status(list(checks)), score=0.0, max_score=4.0, seconds=0.0,
        checks=list(checks), **more,  # type: ignore[arg-type]
    )  # fmt: skip
    report = Report(
        submission=name, seed=1, isolation=[], devices={}, score=0.0, max_score=4.0, steps=[result],
        unread={"step05.zip": "it is an archive"} if name == "packed" else {},
    )  # fmt: skip
    return standing(Graded(student=name, file=name, key="", report=report))


def check(title: str, message: str, status: Status = "fail", **more: object) -> CheckResult:
    """A check that does not pass."""
    return CheckResult(
        name=title, title=title, device="cpu", status=status, points=0.0, max_points=2.0, message=message,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_what_is_no_mistake_of_the_subject_is_under_needs_a_look() -> None:
    """A file that does not parse, one that can't be imported, tampering, an archive: none is “not recognised”."""
    invalid = "importing a.py raised SyntaxError: '(' was never closed"
    missing = "importing a.py raised ModuleNotFoundError: No module named 'numpy'"
    whole = [
        report_of("invalid", check("one", f"{invalid}\nThe inputs have 3 leading dimensions."), check("two", invalid)),
        report_of("missing", check("one", missing), check("two", missing)),
        report_of("odd", check("one", "its process was killed"), check("two", "no answer", "timeout"), odd=True),
        report_of("packed", check("one", "expected 1"), check("two", "expected 2")),
    ]
    with language.use("en"):
        told = {
            concern.reason.split(",")[0]: [one.student for one, _about in concern.students]
            for concern in class_page.concerns(whole)
        }
        assert [one.student for finding in class_page.unexplained(whole) for one in finding.students] == ["packed"]
    assert told == {
        "Files that were not read": ["packed"],
        "The file is not valid Python": ["invalid"],
        "The file can't be imported": ["missing"],
        "The code ended its own process": ["odd"],
    }


MISTAKES = ["masked_after_softmax", "future_instead_of_past", "hidden_marked_true"]


def drawn(seed: int, size: int) -> list[Standing]:
    """A class that somebody drew."""
    draw = random.Random(seed)

    def one(name: str) -> StepStanding:
        status = draw.choice(["pass", "fail", "fail", "timeout", "todo"])
        mistakes = [(draw.choice(MISTAKES),)] if status == "fail" and draw.random() < 0.6 else []
        return step(name, status, *mistakes, off_limits=status == "fail" and draw.random() < 0.2)  # type: ignore[arg-type]

    return [student(f"s{number}", one(MASK), one(DROPOUT)) for number in range(size)]


@pytest.mark.parametrize(("seed", "size"), [(seed, 13) for seed in range(40)] + [(1, 300), (2, 300)])
def test_each_sentence_is_true_of_the_class(seed: int, size: int) -> None:
    """The sentences at the top, the headings of reasons and of findings, read back and counted in the data."""
    whole = drawn(seed, size)
    with language.use("en"):
        said = class_page._sentences(whole, class_page.findings(whole))
        told = class_page.concerns(whole)
    made = Counter((one.name, names) for each in whole for one in each.steps for names in one.diagnoses)
    most = max(made.values())
    first = Counter(
        next((one.name for one in each.steps if one.status != "pass"), None)
        for each in whole
        if not each.nothing_handed_in
    )
    del first[None]
    for sentence in said:
        count = int(re.search(r"(\d+) of \d+ students", sentence)[1])  # type: ignore[index]
        named = set(re.findall(r"step\d\d_\w+", sentence))
        if "mistake" in sentence:
            tied = [key for key, value in made.items() if value == most]
            assert count == most and named == {name for name, _names in tied}
            assert ("The most common" in sentence) == (len(tied) == 1)
        else:
            assert count == max(first.values()) and named == {name for name in first if first[name] == count}
            assert ("most often one of" in sentence) == (len(named) > 1)
    assert len(said) >= (most > 1)
    for concern in told:
        if "off limits" in concern.reason:
            meant = [each.student for each in whole if any(one.off_limits for one in each.steps)]
        elif "timed out" in concern.reason:
            meant = [each.student for each in whole if any(one.status == "timeout" for one in each.steps)]
        else:
            assert concern.reason == "No step was started"
            meant = [each.student for each in whole if each.nothing_handed_in]
        assert [one.student for one, _about in concern.students] == meant


def test_a_large_class_folds_its_lists() -> None:
    """Nobody scrolls past three hundred names to what comes next."""
    whole = page(drawn(1, 300))
    assert sum(tag == "details" for tag, _attributes in whole.tags) >= 2
    assert whole.open == []
