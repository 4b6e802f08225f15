"""The report as a page: whole, self-contained, escaped, in both languages, and the same twice."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from grader.base import language
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.cli import main
from grader.cli.parser import BadInput
from grader.report import heat_map, page

VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}
HOSTILE = "<script>alert('1')</script> &amp; \x1b[2J\x00 \u202egnp.exe\u2066 \"quoted\" {{ 7 * 7 }}"


class Reader(HTMLParser):
    """Reads a page strictly: every element is closed in its turn, every id is there once."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens an element."""
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of a drawing that closes itself."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Closes the element that was opened last."""
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keeps what is read."""
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every element of that name."""
        return [attributes for name, attributes in self.elements if name == tag]


def read(source: str) -> Reader:
    """A page, read to its end."""
    reader = Reader()
    reader.feed(source)
    reader.close()
    assert reader.open == []
    return reader


def check(**changed: object) -> CheckResult:
    """A failing check with a heat map."""
    values: dict[str, object] = {
        "name": "test_mask_by_hand", "title": "The `mask` of two tokens.", "device": "cpu", "status": "fail",
        "points": 0.0, "max_points": 1.0, "misconception": "future_instead_of_past",
        "hint": "Which triangle is it?",
        "message": "called    causal_mask(2)\nexpected  [[True, False], [True, True]]\n"
        "got       [[True, True], [False, True]]\nfirst difference at [0, 1]\ndiagnosis  It was upside down.",
        "parting": Parting(
            expected=[[1.0, 0.0], [1.0, 1.0]], got=[[1.0, 1.0], [0.0, 1.0]], slice=[], place=[0, 1],
            differs=[[False, True], [True, False]],
        ),
    }  # fmt: skip
    return CheckResult(**{**values, **changed})  # type: ignore[arg-type]


def step(name: str, status: str, *checks: CheckResult, **changed: object) -> StepResult:
    """A step of eight points."""
    values: dict[str, object] = {
        "name": name, "title": f"About {name}", "status": status, "score": 0.0, "max_score": 8.0, "seconds": 0.1,
        "checks": list(checks),
    }  # fmt: skip
    return StepResult(**{**values, **changed})  # type: ignore[arg-type]


def report(*steps: StepResult, **changed: object) -> Report:
    """A report of these steps; by default of one for each status."""
    everything = steps or (
        step("step01_scores", "pass", check(status="pass", parting=None, points=1.0), score=8.0),
        step(
            "step02_mask",
            "fail",
            check(),
            check(name="test_again", title="Again.", misconception="other"),
            output="hello\n",
        ),
        step("step03_late", "timeout", check(status="timeout", parting=None, message="Too late.")),
        step("step04_ours", "error", check(status="error", parting=None, message="Ours:\n  File x\nValueError")),
        step("step05_blocked", "skipped", message="Blocked by step02_mask", blocked_by="step02_mask"),
        step("step06_todo", "todo", check(status="todo", parting=None, message="Not written yet.")),
    )
    values: dict[str, object] = {
        "submission": "exercises", "seed": 7, "isolation": ["process"], "score": 8.0, "max_score": 48.0,
        "devices": {"cpu": "checked", "cuda": "not available"}, "steps": list(everything),
    }  # fmt: skip
    return Report(**{**values, **changed})  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=language.LANGUAGES)
def spoken(request: pytest.FixtureRequest) -> str:
    """English, then Korean."""
    return str(request.param)


@pytest.fixture(scope="module")
def source(spoken: str) -> str:
    """The page of the report that holds everything."""
    with language.use(spoken):
        return page.html(report())


def test_page_is_whole(source: str, spoken: str) -> None:
    """Every element is closed, ids are unique, links and labels lead somewhere, and the language is said."""
    reader = read(source)
    assert source.startswith("<!doctype html>")
    assert reader.named("html") == [{"lang": spoken}]
    ids = [attributes["id"] for _tag, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _tag, attributes in reader.elements:
        target = attributes.get("href") or ""
        assert not target or target.removeprefix("#") in ids
        for name in ("aria-labelledby", "aria-describedby"):
            assert set((attributes.get(name) or "").split()) <= set(ids)


def test_page_needs_nothing_else(source: str) -> None:
    """No script, no address, nothing loaded, and the page forbids it."""
    reader = read(source)
    assert "://" not in source
    assert "url(" not in source
    assert "@import" not in source
    assert not any(reader.named(tag) for tag in ("script", "link", "img", "iframe", "image", "use", "object"))
    assert not any(name == "src" or name.startswith("on") for _tag, found in reader.elements for name in found)
    assert any("default-src 'none'" in (attributes.get("content") or "") for attributes in reader.named("meta"))


def test_page_is_made_for_a_screen_reader(source: str) -> None:
    """Landmarks, headings without a gap, header cells with a scope, and a way past what comes first."""
    reader = read(source)
    levels = [int(tag[1]) for tag, _attributes in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert len(reader.named("main")) == 1
    assert reader.named("footer")
    assert all("scope" in attributes for attributes in reader.named("th"))
    assert reader.named("a")[0] == {"class": "skip", "href": "#results"}


def test_page_says_everything(source: str, spoken: str) -> None:
    """The score, every status in a word, the labelled lines, the diagnosis, the nudge and what was printed."""
    text = " ".join(" ".join(read(source).text).split())
    words = {
        "en": ["8 of 48", "pass", "fail", "timed out", "grader error", "blocked", "to do", "A nudge", "row"],
        "ko": ["48점 만점에 8점", "통과", "실패", "생각해 볼 점", "예상 값", "내 코드의 값", "행"],
    }[spoken]
    for word in [*words, "causal_mask(2)", "It was upside down.", "Which triangle is it?", "hello", "step02_mask"]:
        assert word in text
    assert "Not written yet." not in text


def test_hints_come_one_at_a_time(spoken: str) -> None:
    """Each waits inside the one before it, at the steps that fail; markup in them stays text."""
    failing = report(step("step02_mask", "fail", check()), step("step06_todo", "todo"))
    given = {"step02_mask": ["Look at `tril`.", "<b>Bold</b>"], "step06_todo": ["Not yet."]}
    with language.use(spoken):
        source = page.html(failing, hints=given)
        shown = page.fragment(failing, given)
    reader = read(source)
    assert len([found for found in reader.named("details") if found.get("class") == "hint"]) == 2
    assert re.search(r"<details class=\"hint\">.*tril.*<details class=\"hint\">.*&lt;b&gt;", source, re.DOTALL)
    assert "Not yet." not in source
    assert shown.count('class="hint"') == 2
    with language.use(spoken):
        assert "Not yet." in page.html(report(step("step06_todo", "todo")), hints=given)


def test_every_check_is_listed_with_its_points(source: str) -> None:
    """Also those that pass, folded."""
    rows = re.findall(r'<tr><td>\s*<span class="badge (\w+)".*?</td><td class="number">(.*?)</td>', source, re.DOTALL)
    assert rows[0] == ("pass", "1 / 1")
    assert len(rows) == 6


def test_only_the_first_failing_check_is_unfolded(source: str) -> None:
    """The others and the nudge wait for a click, and are opened on paper."""
    checks = [found for found in read(source).named("details") if found.get("class") == "check"]
    assert ["open" in found for found in checks] == [True, False, True, True]
    assert "::details-content" in source.split("@media print")[-1]


def test_one_reason_is_told_once() -> None:
    """What fails for the reason of an earlier check is in its list, with its title; another reason is told in full."""
    message = "raised   NameError: name 'x' is not defined\n         at line 3 of step02_mask.py: return x"
    raised = [
        check(name=f"test_{name}", title=f"{name}.", misconception=None, hint="", parting=None, message=message)
        for name in ("one", "two", "three")
    ]
    source = page.html(report(step("step02_mask", "fail", *raised, check())))
    details = [found.get("class") for found in read(source).named("details")]
    assert details.count("check") == 2
    assert details.count("alike") == 1
    assert source.count("return x") == 1
    alike = source.partition('class="alike"')[2].partition("</details>")[0]
    assert "2 more checks fail for the same reason." in alike
    assert "two." in alike and "three." in alike and "one." not in alike


def test_a_named_line_is_a_link_if_an_editor_is_known() -> None:
    """Its number alone; what is around it stays escaped, and names in backquotes stay names."""
    text = "at line 12 of a.py, in `f`: <b>"
    opened = page.linked(text, opens=lambda file, line: f"x://{file}:{line}")
    assert opened == 'at line <a href="x://a.py:12">12</a> of a.py, in <code translate="no">f</code>: &lt;b&gt;'
    assert page.linked("12 of them", opens=lambda *_at: "x://") == "12 of them"
    assert "<a" not in page.linked(text) and "<code" not in page.linked(text, False)


def test_heat_maps(source: str, spoken: str) -> None:
    """Each matrix is an image with a name and a description, and a table in numbers; both have one scale."""
    reader = read(source)
    pictures = [picture for picture in reader.named("svg") if "aria-hidden" not in picture]
    assert len(pictures) == 4
    assert source.count('aria-hidden="true">\n<g transform="translate(148 8)">') == 2
    assert all(picture["role"] == "img" and picture["aria-describedby"] for picture in pictures)
    assert len(reader.named("desc")) == 4
    within = "".join(re.findall("<svg.*?</svg>", source, re.DOTALL))
    assert "xmlns" not in within
    assert len(re.findall(r"\bid=", within)) == 2 * len(pictures)  # a name and a description, and nothing else
    assert ("rotate(-90)" in within) == (spoken == "en")  # one Hangul syllable stands upright
    tables = [found for found in reader.named("table") if found.get("class") == "matrix"]
    assert len(tables) == 4
    assert source.count('<td class="differs">') == 8
    assert heat_map.fill(0) in source  # the two ends of one scale
    assert heat_map.fill(heat_map.LEVELS) in source


def test_sizes_and_values_of_heat_maps() -> None:
    """Rows, columns, large matrices, equal ones, infinities: each is drawn, and cells up to eight hold numbers."""
    for rows, columns in ((1, 1), (1, 8), (8, 8), (9, 1), (32, 32)):
        expected = [[float(row + column) for column in range(columns)] for row in range(rows)]
        differs = [[row == column == 0 for column in range(columns)] for row in range(rows)]
        parting = Parting(expected=expected, got=expected, differs=differs, slice=[1], place=[0, 0])
        drawn = page.heat_map(parting, "x")
        groups = re.findall(r'<g [^>]*style="fill:(?:#|var)[^>]*>(.*?)</g>', str(drawn.panels), re.DOTALL)
        cells = re.findall(r">[^<\s]+</text>", "".join(groups))
        assert len(cells) == (2 * rows * columns if max(rows, columns) <= heat_map.NUMBERED else 0)
        assert sum(cell.differs for _title, lines in drawn.tables for line in lines for cell in line) == 2
    infinite = Parting(expected=[[None, 1.0]], got=[[2.0, 1.0]], differs=[[True, False]], slice=[], place=[0, 0])
    drawn = page.heat_map(infinite, "x")
    assert "×" in str(drawn.panels)
    assert [[cell.differs for cell in line] for _title, lines in drawn.tables for line in lines] == [[True, False]] * 2
    nothing = Parting(expected=[[None]], got=[[None]], differs=[[True]], slice=[], place=[0, 0])
    assert "×" in str(page.heat_map(nothing, "x").panels)


def test_masks_are_shown_as_true_and_false() -> None:
    """In the picture and in the tables, as in the code."""
    mask = Parting(expected=[[True, False]], got=[[False, False]], differs=[[True, False]], slice=[], place=[0, 0])
    drawn = page.heat_map(mask, "x")
    assert ">True<" in str(drawn.panels)
    assert [[cell.text for cell in line] for _title, lines in drawn.tables for line in lines] == [
        ["True", "False"],
        ["False", "False"],
    ]
    assert "expected True, got False" in " ".join(drawn.caption)


def test_what_learners_make_is_shown_and_not_obeyed() -> None:
    """Markup, control characters and characters that turn text around, wherever a learner could put them."""
    hostile = check(title=HOSTILE, message=f"{HOSTILE}\ncame      {HOSTILE}\n- {HOSTILE}\n  {HOSTILE}", hint=HOSTILE)
    source = page.html(report(step("step02_mask", "fail", hostile, output=HOSTILE, title=HOSTILE), submission=HOSTILE))
    reader = read(source)
    assert not reader.named("script")
    assert "&lt;script&gt;" in source
    assert "&amp;amp;" in source
    assert "{{ 7 * 7 }}" in "".join(reader.text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", source)
    assert r"\x1b[2J\x00 \u202egnp.exe\u2066" in "".join(reader.text)


def test_what_a_whole_step_waits_for_is_said_once() -> None:
    """The sentence stands at the step and not in each of its checks."""
    why = "Blocked by step02_mask."
    blocked = [check(status="skipped", parting=None, message=f"{why}\ncame      {number}") for number in range(3)]
    source = page.html(report(step("step05_blocked", "skipped", *blocked, message=why)))
    assert source.count(why) == 1
    assert '<p class="words"></p>' not in source


def test_code_in_sentences() -> None:
    """Names between backquotes are code; one backquote alone is itself."""
    assert page.coded("`dim` <b>") == '<code translate="no">dim</code> &lt;b&gt;'
    assert page.coded("a ` b") == "a ` b"


def test_lines_of_a_message() -> None:
    """Labels, lists, words and typed text are told apart."""
    found = page.blocks("called    f(1)\ngot       2\nwords\nmore words\n- one\n- two\n  as typed\ndiagnosis  why")
    assert [block.kind for block in found] == ["pairs", "words", "list", "typed", "pairs"]
    assert [pair.code for pair in found[0].pairs] == [True, True]
    assert found[1].lines == ["words", "more words"]
    assert [pair.code for pair in found[4].pairs] == [False]


def test_same_bytes_twice(source: str, spoken: str) -> None:
    """A report has one page."""
    with language.use(spoken):
        assert page.html(report()) == source


def test_everything_passed_and_nothing_graded() -> None:
    """Pages with nothing to mend, and with nothing at all."""
    done = page.html(report(step("step01_scores", "pass", score=8.0), score=8.0, max_score=8.0))
    assert 'class="step"' not in done
    read(done)
    read(page.html(report(steps=[], score=0.0, max_score=0.0)))


def test_a_page_is_cheap() -> None:
    """The command line loads no template engine until there is a page, and heat maps need no library of arrays."""
    encoded = msgspec.json.encode(report()).decode()
    code = f"""
import sys, grader.cli.main
assert "jinja2" not in sys.modules
import msgspec
from grader.report import page
from grader.base import results
assert page.html(msgspec.json.decode({encoded!r}, type=results.Report)).count("<svg") == 6
sys.exit(bool({{"matplotlib", "numpy", "torch"}} & set(sys.modules)))
"""
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=600).returncode == 0


def test_open_needs_a_page() -> None:
    """`--open` alone is refused, with what to type."""
    with pytest.raises(BadInput, match="--html report.html --open"):
        main.run(["grade", "--open", "--lang", "en"])


def test_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The page is opened by its address; no browser is no failure."""
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(asked.append(address)))
    assert page.show_in_browser(tmp_path / "report.html") is False
    assert asked == [(tmp_path / "report.html").resolve().as_uri()]
