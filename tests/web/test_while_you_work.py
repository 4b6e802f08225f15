"""The page while one works: what it says of a save that is being graded, a stop, a restart, files that hold nothing to
grade, links into the editor, keys, the search, the code next to another right way, and what axe finds."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.base import language, paths
from grader.course import choice, stubs
from grader.web import comparison, editor, lesson
from grader.web.server import port_of
from tests import browser
from tests.browser import Tab
from tests.watched import Session
from tests.whole import SPOKEN

STEP = "step04_causal_mask"
RIGHT = (paths.step_folder(STEP) / "reference.py").read_text(encoding="utf-8")
ENDLESS = RIGHT.replace("return torch.ones(", "while True: pass\n    return torch.ones(")

Opened = Callable[..., tuple[Session, Tab]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of untouched stubs."""
    exercises = tmp_path / "exercises"
    exercises.mkdir()
    for name in choice.step_names(None, choice.CORE):
        (exercises / f"{name}.py").write_text(stubs.original(paths.step_folder(name)), encoding="utf-8")
    return exercises


@pytest.fixture
def opened(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Starts sessions of the course with a browser that looks at them, and ends them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with contextlib.ExitStack() as stack:

        def open_at(*arguments: str, spoken: str = "en", **environment: str) -> tuple[Session, Tab]:
            session = stack.enter_context(
                Session(
                    folder, *arguments, command="course", terminal=False, BROWSER="true", KIT_LANG=spoken, **environment
                )
            )
            address = re.search(r"http://127\.0\.0\.1:\d+/\S+", session.until("127.0.0.1"))
            assert address is not None
            tab = stack.enter_context(Tab(address[0], tmp_path / f"profile-{session.process.pid}"))
            tab.until("document.querySelectorAll('.row').length > 12 && document.querySelector('.status')")
            return session, tab

        yield open_at


def go(tab: Tab, path: str) -> None:
    """Goes to a place of the page."""
    tab.value(f"import('/assets/course.js').then(page => page.go('{path}'))")


@browser.needed
@pytest.mark.thorough
@pytest.mark.parametrize("spoken", SPOKEN)
def test_a_loop_is_said_stopped_and_mended(folder: Path, opened: Opened, spoken: str) -> None:
    """Green, then a loop: the old verdict is grey at once, what is asked is said with seconds, and after the limit that
    no answer came; a stop ends it, and so does a better save."""
    _session, tab = opened("4", spoken=spoken)
    file = folder / f"{STEP}.py"
    file.write_text(RIGHT, encoding="utf-8")
    tab.until("document.querySelector('.status.pass') && document.querySelector('.grading').hidden")
    file.write_text(ENDLESS, encoding="utf-8")
    tab.until("document.querySelector('.verdict.stale') && document.querySelector('.grading .seconds')")
    tab.until("document.querySelector('.grading .small').textContent.length > 10")
    tab.value("document.querySelector('.grading button').click()")
    tab.until("!document.querySelector('.grading button') && !document.querySelector('.grading').hidden")
    file.write_text(ENDLESS + "\n", encoding="utf-8")
    tab.until("document.querySelector('.grading .failed')?.textContent.match(/5\\s*(s|초)/)")
    assert tab.misfits() == {}
    tab.value(
        "(() => { const box = document.querySelector('.grading'); window.silent = 0; new MutationObserver(() => {"
        " if (!box.hidden && !box.querySelector('.failed')) window.silent++;"
        " }).observe(box, {childList: true, attributes: true}); })()"
    )
    tab.until("document.querySelector('.grading').hidden && document.querySelector('.status.timeout, .status.fail')")
    assert tab.value("window.silent") == 0  # what was said stays until the verdict
    file.write_text(RIGHT, encoding="utf-8")
    tab.until(
        "document.querySelector('.grading').hidden && document.querySelector('.verdict:not(.stale) .status.pass')"
    )


@browser.needed
@pytest.mark.thorough
@pytest.mark.parametrize("spoken", SPOKEN)
def test_an_open_tab_revives(folder: Path, opened: Opened, spoken: str) -> None:
    """After a restart on the same port the old tab goes on; an address without its token says what to do."""
    session, tab = opened("4", spoken=spoken)
    (folder / f"{STEP}.py").write_text(RIGHT, encoding="utf-8")
    tab.until("document.querySelector('.status.pass')")
    assert tab.value("location.port") == str(port_of(folder))
    session.process.terminate()
    tab.until("!document.getElementById('lost').hidden")
    again, _other = opened("4", spoken=spoken)
    tab.until("document.getElementById('lost').hidden && document.querySelector('.status.pass')")
    tab.ask("Network.clearBrowserCookies")
    tab.ask("Page.navigate", url=re.search(r"http://127\.0\.0\.1:\d+/", again.shown)[0] + "step/4")
    tab.until("document.querySelector('h1') && document.body.innerText.includes('make course')")
    assert tab.value("document.documentElement.lang") == spoken
    assert tab.misfits() == {}


@browser.needed
@pytest.mark.thorough
def test_files_that_hold_nothing_to_grade(folder: Path, opened: Opened) -> None:
    """Deleted, empty, not UTF-8: what is the matter and the way out, which puts the stub back."""
    _session, tab = opened("4")
    file = folder / f"{STEP}.py"
    file.unlink()
    tab.until("document.querySelector('.words')?.textContent.includes('There is no file')")
    assert tab.value("document.querySelector('.verdict').innerText.includes('Start over')")
    file.write_text("", encoding="utf-8")
    tab.until("document.querySelector('.words')?.textContent.includes('is empty')")
    file.write_bytes("# 한글\n".encode("cp949") + RIGHT.encode())
    tab.until("document.querySelector('.words')?.textContent.includes('UTF-8')")
    tab.value("[...document.querySelectorAll('.tools button')].at(-1).click()")
    tab.until("document.querySelector('dialog [value=yes]')")
    tab.value("document.querySelector('dialog [value=yes]').click()")
    tab.until("document.querySelector('.turn')")
    assert stubs.is_untouched(file.read_text(encoding="utf-8"))
    assert not tab.value("document.querySelector('.note a')")  # a stub that was put back is no save


@browser.needed
@pytest.mark.thorough
@pytest.mark.parametrize("spoken", SPOKEN)
def test_nearer_to_the_editor(folder: Path, opened: Opened, spoken: str) -> None:
    """A button and the numbers of lines open the file there; the keys of watch mode work; the lessons are searched; and
    after green another right way is next to one's own."""
    _session, tab = opened("4", spoken=spoken, EDITOR="/usr/bin/code --wait")
    (folder / f"{STEP}.py").write_text(RIGHT.replace("torch.ones", "torch.onse"), encoding="utf-8")
    tab.until("document.querySelector('.code a.no') && document.querySelector('.code .fault')")
    line = tab.value("document.querySelector('.code .fault .no').textContent")
    link = tab.value("document.querySelector('.path a').getAttribute('href')")
    assert link == f"vscode://file{(folder / STEP).resolve()}.py:{line}"
    assert tab.value("document.querySelector('.code .fault a').getAttribute('href')") == link
    assert tab.value("document.querySelector('.lead').innerText.includes('ones')")  # did you mean it?
    assert tab.value("document.querySelector('.lead a').getAttribute('href')") == link
    tab.until("document.querySelector('.hints button')")
    tab.press("h")
    tab.until("document.querySelectorAll('.hint').length == 1")
    tab.press("n")
    tab.until("location.pathname == '/step/1'")
    tab.press("/")
    tab.until("document.activeElement.id == 'search'")
    for letter in "sqrt":
        tab.press(letter)
    tab.until("document.querySelectorAll('.found mark').length > 0")
    assert tab.misfits() == {}
    tab.value("document.querySelector('.found a').click()")
    go(tab, "/step/4")
    (folder / f"{STEP}.py").write_text(RIGHT, encoding="utf-8")
    tab.until("document.querySelectorAll('.way .beside tr').length > 5")
    tab.until("document.querySelectorAll('.way .beside .differs').length > 0")


@browser.needed
@browser.axe_needed
@pytest.mark.thorough
@pytest.mark.parametrize("spoken", SPOKEN)
def test_axe_finds_nothing_serious(folder: Path, opened: Opened, spoken: str) -> None:
    """On any page, wide and on a phone."""
    _session, tab = opened(spoken=spoken)
    (folder / "step01_scores.py").write_text(
        (paths.step_folder("step01_scores") / "reference.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (folder / f"{STEP}.py").write_text(RIGHT.replace(".tril()", ".triu()"), encoding="utf-8")
    ready = {
        "/step/1": "document.querySelector('.way')",
        "/step/4": "document.querySelector('.lead')",
        "/step/5": "document.querySelector('.status.todo')",
        "/step/16": "document.querySelector('.status.away')",
        "/lab/mask": "document.querySelector('.prediction')",
        "/explore": "document.querySelectorAll('.flow-box').length === 19 && document.querySelector('.look-heads *')",
    }
    for place, shown in ready.items():
        go(tab, place)
        tab.until(f"location.pathname == '{place}' && {shown}")
        for width in (1400, 390):
            tab.look(width)
            for column in ("middle", "right", "map"):
                tab.value(f"document.body.dataset.tab = '{column}'")
                assert tab.inaccessible() == [], (place, width, column)
            tab.value("document.body.dataset.tab = 'middle'")


# --- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "link"),
    [
        ({"EDITOR": "code --wait"}, "vscode://file/a%20b/step.py:7"),
        ({"VISUAL": "/opt/cursor", "EDITOR": "vim"}, "cursor://file/a%20b/step.py:7"),
        ({"EDITOR": "vim"}, ""),
        ({"KIT_EDITOR": "my://open?at={path}&row={line}", "EDITOR": "code"}, "my://open?at=/a%20b/step.py&row=7"),
        ({"KIT_EDITOR": "javascript://{path}"}, ""),
        ({"PATH": "/nowhere"}, ""),
        ({"PATH": "/nowhere", "TERM_PROGRAM": "vscode"}, "vscode://file/a%20b/step.py:7"),
    ],
)
def test_links_of_editors(environment: dict[str, str], link: str) -> None:
    """By the editor that is set, as data; without one that has links the path is copied."""
    form = editor.scheme(environment)
    assert (editor.link(Path("/a b/step.py"), 7, form) if form else "") == link


def test_the_search_finds_every_word() -> None:
    """In the language in use, with what was found marked; a word that is nowhere finds nothing."""
    assert 4 in [one["number"] for one in lesson.found("causal mask")]
    assert all(one["excerpt"][1][1] for one in lesson.found("softmax"))
    with language.use("ko"):
        assert 2 in [one["number"] for one in lesson.found("소프트맥스")]
    assert lesson.found("softmax qwertz") == [] == lesson.found("  ")


def test_code_next_to_another_way() -> None:
    """Docstrings, comments and empty lines are left out; equal lines stand side by side."""
    own = 'def f(x):\n    """Says."""\n    # why\n    y = x + 1\n\n    return y\n'
    other = "def f(x):\n    y = 1 + x  # so\n    z = 3\n    return y\n"
    rows = comparison.rows(own, other)
    assert [row.same for row in rows] == [True, False, False, True]
    assert rows[2].own is None
    assert comparison.rows("def f(:", other) == []
