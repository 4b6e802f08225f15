"""The course's page: in a real headless Chromium, and what its server refuses."""

from __future__ import annotations

import contextlib
import http.client
import re
from collections.abc import Iterator
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
from tests.browser import Tab
from tests.watched import Session

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


@browser.needed
def test_saves_are_seen_in_a_browser(folder: Path, tmp_path: Path) -> None:
    """A save brings its heat maps, a fixed file its pass, and the end is said."""
    file = folder / f"{STEP}.py"
    with Session(folder, "4", "--page", terminal=False, BROWSER="true") as session:
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+", session.until("127.0.0.1", "to do"))
        assert address is not None
        with Tab(address[0], tmp_path / "profile") as tab:
            tab.until("document.body.innerText.includes('def causal_mask')")
            file.write_text(RIGHT.replace(".tril()", ".triu()"), encoding="utf-8")
            tab.until("document.querySelectorAll('.panels svg').length > 1")
            file.write_text(RIGHT, encoding="utf-8")
            tab.until("document.querySelector('.map [aria-current]').innerText.includes('pass')")
            session.process.terminate()
            tab.until("!document.getElementById('lost').hidden")


@browser.needed
@pytest.mark.parametrize("spoken", language.LANGUAGES)
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
