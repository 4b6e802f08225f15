"""The course's page: in a real headless Chromium, and what its server refuses."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from grader.base import language, paths
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.course import choice, stubs
from grader.report import page
from grader.web.server import PageServer, cookie_name
from tests import browser
from tests.asked import Asked
from tests.browser import Tab
from tests.watched import Session
from tests.whole import SPOKEN

pytestmark = pytest.mark.thorough

STEP = "step04_causal_mask"
RIGHT = (paths.ROOT / "solutions" / "core" / STEP / "reference.py").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of untouched stubs."""
    exercises = tmp_path / "exercises"
    exercises.mkdir()
    for name in choice.step_names(None, choice.CORE):
        source = stubs.original(paths.ROOT / "solutions" / "core" / name)
        (exercises / f"{name}.py").write_text(source, encoding="utf-8")
    return exercises


@pytest.fixture
def opened(folder: Path, tmp_path: Path) -> Iterator[Callable[..., tuple[Session, Tab]]]:
    """Starts sessions of the course with a browser that looks at them, and ends them."""
    with contextlib.ExitStack() as stack:

        def open_at(*arguments: str, command: str = "course", spoken: str = "en") -> tuple[Session, Tab]:
            session = stack.enter_context(
                Session(folder, *arguments, command=command, terminal=False, BROWSER="true", KIT_LANG=spoken)
            )
            address = re.search(r"http://127\.0\.0\.1:\d+/\S+", session.until("127.0.0.1"))
            assert address is not None
            tab = stack.enter_context(Tab(address[0], tmp_path / f"profile-{session.process.pid}"))
            tab.until("document.querySelectorAll('.row').length > 12")
            return session, tab

        yield open_at


def solve(folder: Path, step: str, of: str = "core") -> None:
    """Saves the reference as the learner's file."""
    source = (paths.ROOT / "solutions" / of / step / "reference.py").read_text(encoding="utf-8")
    (folder / f"{step}.py").write_text(source, encoding="utf-8")


def of_its_own(tab: Tab) -> None:
    """Nothing on the console, and nothing from elsewhere."""
    assert tab.complaints == []
    assert [one for one in tab.requests if not re.match(r"http://127\.0\.0\.1:\d+/|data:", one)] == []


def readable(tab: Tab) -> None:
    """Wide, between, and as a phone; light and dark: everything fits and can be read."""
    for width, dark in ((1440, False), (1440, True), (1000, False), (390, False), (390, True)):
        tab.look(width, dark=dark)
        for column in ("middle", "right", "map"):
            tab.value(f"document.body.dataset.tab = '{column}'")
            assert tab.misfits() == {}, (width, dark, column)
    tab.look(1440)
    tab.value("document.body.dataset.tab = 'middle'")


@browser.needed
@pytest.mark.parametrize("spoken", SPOKEN)
def test_from_a_fresh_start_to_green(folder: Path, opened: Callable[..., tuple[Session, Tab]], spoken: str) -> None:
    """Step 1: its lesson, a hint, a save, what was built by it, other right ways, and the button to what comes next; a
    reload and a restart show the same."""
    session, tab = opened(spoken=spoken)
    tab.until("document.querySelector('.lesson h1') && document.querySelector('.status.todo')")
    assert "NotImplementedError" in tab.value("document.querySelector('.code .about').textContent")  # where to write
    title = tab.value("document.querySelector('.lesson h1').textContent")
    assert title and ("스코어" in title) is (spoken == "ko")
    tab.value("document.querySelector('.hints button').click()")
    tab.until("document.querySelectorAll('.hint').length == 1")
    solve(folder, "step01_scores")
    tab.until("document.querySelector('.status.pass') && document.querySelector('#built svg')")
    assert tab.value("document.title").startswith("✓ 1 ")
    tab.until("document.querySelectorAll('.way').length > 2")
    readable(tab)
    tab.value("document.querySelector('#onward .primary').click()")
    tab.until("location.pathname == '/step/2' && document.querySelector('.status.todo')")
    tab.ask("Page.reload")
    tab.until("document.querySelector('.row.pass') && location.pathname == '/step/2'")
    of_its_own(tab)
    session.process.terminate()
    tab.until("!document.getElementById('lost').hidden")
    _again, after = opened(spoken=spoken)
    assert after.value("document.querySelector('.row.pass .number').textContent") == "1"
    after.value("document.querySelector('.row.pass').click()")
    after.until("document.querySelectorAll('.hint').length == 1 && document.querySelector('.status.pass')")


@browser.needed
@pytest.mark.parametrize("spoken", SPOKEN)
def test_a_wrong_and_a_right_save(folder: Path, opened: Callable[..., tuple[Session, Tab]], spoken: str) -> None:
    """Step 4 by `make watch PAGE=1`: heat maps and the diagnosis beside the lesson, the lines that it is about, a
    syntax error with line and caret, then green with the mask drawn; the save of another step is said."""
    _session, tab = opened("4", "--page", command="watch", spoken=spoken)
    tab.until("location.pathname == '/step/4' && document.querySelector('.status.todo')")
    file = folder / f"{STEP}.py"
    file.write_text(RIGHT.replace(".tril()", ".triu()"), encoding="utf-8")
    tab.until("document.querySelectorAll('.lead .panels svg').length == 2 && document.querySelector('.pairs .said')")
    lesson, picture = tab.value(
        "['.lesson', '.panels'].map(one => document.querySelector(one).getBoundingClientRect())"
        ".map(box => [box.left, box.right])"
    )
    assert lesson[1] <= picture[0]
    assert tab.value("document.querySelector('.code .about').textContent.includes('def causal_mask')")
    assert tab.value("document.querySelectorAll('.code .k').length") > 3
    # The diagnosis is above the pictures, which take the place of the same values as text; no line of code is cut.
    order = "document.querySelector('.said').compareDocumentPosition(document.querySelector('.panels'))"
    assert tab.value(f"{order} & Node.DOCUMENT_POSITION_FOLLOWING")
    assert "[[True" not in tab.value("document.querySelector('.lead').innerText")
    assert tab.value("(one => one.scrollWidth <= one.clientWidth)(document.querySelector('.code'))")
    wrong = tab.value("document.querySelectorAll('.lead .panels svg')[1].outerHTML")
    readable(tab)
    file.write_text(RIGHT.replace("return torch.ones", "return tensor.ones"), encoding="utf-8")
    tab.until("document.querySelector('.code .fault')?.textContent.includes('tensor.ones')")
    file.write_text(RIGHT.replace(".tril()", ".tril("), encoding="utf-8")
    tab.until("document.querySelector('.status.calm') && document.querySelector('.caret').textContent.includes('^')")
    assert tab.value("document.querySelector('.code .fault').textContent.includes('.tril(')")
    file.write_text(RIGHT.replace(".tril()", ".tril(1)"), encoding="utf-8")
    tab.until("document.querySelectorAll('.lead .panels svg').length == 2")
    assert tab.value("document.querySelectorAll('.lead .panels svg')[1].outerHTML") != wrong
    file.write_text(RIGHT, encoding="utf-8")
    tab.until("document.querySelector('.status.pass') && document.querySelectorAll('#built svg').length > 1")
    solve(folder, "step01_scores")
    tab.until("document.querySelector('.note a')?.getAttribute('href') == '/step/1'")
    of_its_own(tab)


@browser.needed
@pytest.mark.parametrize("spoken", SPOKEN)
def test_a_lab_with_its_prediction(opened: Callable[..., tuple[Session, Tab]], spoken: str) -> None:
    """What it asks, an answer, its progress, and its page with the prediction in it."""
    _session, tab = opened(spoken=spoken)
    tab.value("document.querySelector(\"a[href='/lab/scale']\").click()")
    tab.until("document.querySelector('.prediction')")
    readable(tab)
    tab.value("document.querySelector('[name=words]').value = 'something else'")  # a choice takes its place
    chosen = tab.value(
        "(() => { const one = document.querySelector('.prediction label'); one.click(); return one.textContent; })()"
    )
    tab.value("document.querySelector('[name=seconds]').value = 3")
    tab.value("document.querySelector('.prediction .primary').click()")
    tab.until("document.querySelector('progress')")
    tab.until("document.querySelector('.result iframe') && !document.querySelector('progress')")
    shown = tab.value("fetch(document.querySelector('.result iframe').src).then(one => one.text())")
    assert chosen in shown
    tab.until("document.querySelector('.answered').textContent")
    assert tab.value("document.querySelector('.answered').textContent.trim()")
    assert tab.value("document.querySelector('.prediction :checked').nextSibling.textContent") == chosen
    readable(tab)
    of_its_own(tab)


@browser.needed
def test_by_keyboard_alone(opened: Callable[..., tuple[Session, Tab]]) -> None:
    """Tab reaches every control that is seen, each shows where the focus is; Enter opens a step and stays there."""
    _session, tab = opened("4")
    tab.until("document.querySelector('.status.todo') && document.querySelector('.hints button')")
    # All graded, and torch is loaded: then nothing is drawn again while keys are pressed.
    tab.until(
        "!document.querySelector('.row.waiting') && document.querySelectorAll('.map li')[3].querySelector('.lab')"
    )
    every = "a[href], button, summary, input, pre[tabindex]"
    controls = f"[...document.querySelectorAll('{every}')].filter(one => one.checkVisibility())"
    tab.value(f"{controls}.forEach((one, number) => {{ one.dataset.control = number; }})")
    seen, dull = set(), set()
    for _press in range(tab.value(f"{controls}.length") + 8):
        tab.press("Tab")
        number, outlined = tab.value(
            "[document.activeElement.dataset.control, getComputedStyle(document.activeElement).outlineStyle != 'none']"
        )
        seen.add(number)
        if number is not None and not outlined:
            dull.add(tab.value("document.activeElement.outerHTML"))
    assert {str(number) for number in range(tab.value(f"{controls}.length"))} <= seen
    assert dull == set()
    tab.value("document.querySelector(\"a.row[href='/step/5']\").focus()")
    tab.press("Enter")
    tab.until("location.pathname == '/step/5' && document.activeElement.id == 'middle'")
    of_its_own(tab)


@browser.needed
def test_a_track_is_begun_on_the_page(folder: Path, opened: Callable[..., tuple[Session, Tab]]) -> None:
    """A step that is not begun says when to take it, and a button writes its stubs; what is odd is never markup."""
    _session, tab = opened()
    tab.value("import('/assets/course.js').then(page => page.go('/step/16'))")
    tab.until("document.querySelector('.status.away')")
    row, window = "document.querySelector('.map .row[aria-current]').getBoundingClientRect().bottom", "innerHeight"
    assert tab.value(f"{row} < {window} + 1")  # the list shows where one is
    tab.value("document.querySelector('.verdict .primary').click()")
    tab.until("document.querySelector('.status.todo')")
    assert (folder / "step16_sinusoidal.py").is_file()
    odd = 'print("<img src=x onerror=alert(1)><script>alert(2)</script>")\nraise ValueError("</pre><b>bold</b>")\n'
    (folder / "step01_scores.py").write_text(odd, encoding="utf-8")
    tab.value("import('/assets/course.js').then(page => page.go('/step/1'))")
    tab.until("document.querySelector('.right').innerText.includes('<b>bold</b>')")
    assert tab.value("document.querySelectorAll('.right img, .right script, .right b').length") == 0
    of_its_own(tab)


@browser.needed
def test_several_tabs(folder: Path, opened: Callable[..., tuple[Session, Tab]]) -> None:
    """Each stays at its place, and both see a save."""
    _session, tab = opened("4")
    second = tab.ask("Target.createTarget", url=tab.value("location.origin") + "/step/1")["targetId"]
    first, tab.session = tab.session, tab.ask("Target.attachToTarget", targetId=second, flatten=True)["sessionId"]
    tab.until("document.querySelector('.status.todo')")
    solve(folder, "step01_scores")
    tab.until("document.querySelector('.status.pass')")
    tab.session = first
    tab.until("document.querySelector('.row.pass') && location.pathname == '/step/4'")


def test_many_requests_right_after_the_start(folder: Path) -> None:
    """Several tabs ask for lessons, verdicts and a lab while torch is still being loaded: all are answered."""
    names = choice.step_names(None, choice.CORE)
    paths_asked = [f"/data/{what}/{name}" for name in names[:6] for what in ("lesson", "verdict")] + ["/data/lab/scale"]
    session = Session(folder, command="course", terminal=False, BROWSER="true")
    with session, ThreadPoolExecutor(len(paths_asked)) as tabs:
        page = Asked(session)
        assert all(tabs.map(page.get, paths_asked))
    assert "fault" not in session.shown


@browser.needed
@pytest.mark.parametrize("spoken", SPOKEN)
def test_a_report_on_a_phone(spoken: str, tmp_path: Path) -> None:
    """390 pixels wide: a step's name breaks after an underscore alone, one heat map stands below the other, and nothing
    but what scrolls is wider."""
    zeros = [[0.0] * 4] * 4
    parting = Parting(expected=zeros, got=zeros, differs=[[True] * 4] * 4, slice=[], place=[0, 0])
    check = CheckResult(
        name="test_it", title="It is right.", device="cpu", status="fail", points=0.0, max_points=2.0, parting=parting,
        message="called    f(1)\nexpected  1\ngot       2",
    )  # fmt: skip
    step = StepResult(
        name="step16_sinusoidal", title="Sinusoidal positions: where a token stands, told by waves", status="fail",
        score=0.0, max_score=2.0, seconds=0.1, checks=[check],
    )  # fmt: skip
    report = Report(submission="ada", seed=1, isolation=[], devices={}, score=0.0, max_score=2.0, steps=[step])
    with language.use(spoken):
        text = page.html(report, hints={step.name: ["One.", "Two."]})
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    with Tab(file.as_uri(), tmp_path / "profile", 390, 2000) as tab:
        tab.until("document.readyState == 'complete' && innerWidth == 390")
        lines = tab.value(
            "[...document.querySelectorAll('.steps tbody th a')].flatMap(name => [...name.childNodes])"
            ".filter(node => node.nodeType == 3).map(node => { const range = document.createRange();"
            " range.selectNodeContents(node); return range.getClientRects().length; })"
        )
        assert lines == [1, 1]
        first, second = tab.value(
            "[...document.querySelectorAll('.panels svg')].map(one => one.getBoundingClientRect())"
            ".map(box => [box.top, box.bottom, box.right])"
        )
        assert first[1] <= second[0]
        assert max(first[2], second[2]) <= 390
        assert tab.value("document.documentElement.scrollWidth") <= 390


# --- who may ask -----------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[tuple[PageServer, list[str]]]:
    """A server, and what it was asked to do."""
    done: list[str] = []

    def do(request: Request) -> Response:
        done.append(request.path_params["what"])
        return JSONResponse({})

    routes = [Route("/", lambda request: Response("page")), Route("/do/{what}", do, methods=["POST"])]
    server = PageServer(routes, port=0)
    with contextlib.closing(server):
        yield server, done


def asked(server: PageServer, method: str, path: str, body: str | None = None, **headers: str) -> int:
    """The status of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, body, {name.replace("_", "-"): said for name, said in headers.items()})
        return connection.getresponse().status


def test_only_its_own_page_is_answered(served: tuple[PageServer, list[str]]) -> None:
    """Nothing without the cookie, under a stranger's name, from a stranger's page, of another kind, or too long."""
    server, done = served
    cookie = {"Cookie": f"{cookie_name(server.port)}={server.token}"}
    own = cookie | {"Origin": f"http://127.0.0.1:{server.port}", "Content_Type": "application/json"}
    assert asked(server, "GET", "/", **cookie) == 200
    assert asked(server, "GET", "/", **cookie, Host="attacker.example") == 404
    assert asked(server, "GET", "/") == 403
    assert asked(server, "GET", f"/?token={server.token}") == 403
    assert asked(server, "GET", "/assets/course.css") == 403
    assert asked(server, "GET", "/", Cookie=f"{cookie_name(server.port)}={server.token[:-1]}") == 403
    assert asked(server, "GET", "/assets/../server.py", **cookie) == 404
    assert asked(server, "GET", "/enter") == 403
    assert asked(server, "GET", f"/enter?token={server.token[:-1]}") == 403
    assert asked(server, "POST", "/do/again", "{}", **{**own, "Cookie": ""}) == 403
    assert asked(server, "POST", "/do/again", "{}", **{**own, "Origin": "http://attacker.example"}) == 403
    assert asked(server, "POST", "/do/again", "{}", **{**own, "Content_Type": "text/plain"}) == 403
    assert asked(server, "POST", "/do/again", "x" * (1 << 17), **own) == 403
    assert asked(server, "DELETE", "/", **own, Content_Length="0") == 405
    assert done == []
    assert asked(server, "POST", "/do/again", "{}", **own) == 200
    assert done == ["again"]


def test_a_fault_of_ours_is_a_line_and_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    """The page gets it as JSON, the terminal hears it once; no traceback stands anywhere."""

    def odd(request: Request) -> Response:
        raise KeyError("lesson")

    told: list[str] = []
    with contextlib.closing(PageServer([Route("/data/odd", odd)], port=0, report=told.append)) as server:
        cookie = f"{cookie_name(server.port)}={server.token}"
        for _again in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", "/data/odd", headers={"Cookie": cookie})
                answer = connection.getresponse()
                assert answer.status == 500
                assert json.loads(answer.read())["error"] == told[0]
    assert len(told) == 1
    assert "/data/odd" in told[0] and "KeyError: 'lesson' (test_course_page.py" in told[0]
    assert capfd.readouterr() == ("", "")


def test_it_listens_on_the_loopback_alone(served: tuple[PageServer, list[str]]) -> None:
    """And its address says so; two sessions have a port each."""
    server, _done = served
    assert server.address().startswith(f"http://127.0.0.1:{server.port}/enter?token=")
    assert len(server.token) >= 20
    with contextlib.closing(PageServer([], port=server.port)) as second:
        assert second.port != server.port


def test_what_opens_the_page_is_for_this_user_alone(
    served: tuple[PageServer, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser is given a file, which leads on; its command line does not show the token, and the file goes."""
    server, _done = served
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert server.open("/step/4")
    file = Path(opened[0].removeprefix("file://"))
    assert server.token not in opened[0]
    assert server.token in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600
    server.close()
    assert not file.exists()
