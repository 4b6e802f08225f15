"""Watch mode's page: in a real headless Chromium, and what its server refuses."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from grader.base import language, paths
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.course import choice, stubs
from grader.learner.live_server import LiveServer
from grader.report import page
from tests.watched import PATIENCE, Session

pytestmark = pytest.mark.thorough

STEP = "step04_causal_mask"
RIGHT = (paths.ROOT / "solutions" / "core" / STEP / "reference.py").read_text(encoding="utf-8")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Chromium reads commands from descriptor 3 and writes answers to 4.
PIPED = """
import os, sys
held = [os.dup(os.dup(int(number))) for number in sys.argv[1:3]]
for number, wanted in zip(held, (3, 4)):
    os.dup2(number, wanted)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Tab:
    """A page in a headless Chromium, spoken to through a pair of pipes."""

    def __init__(self, address: str, profile: Path, width: int = 1400) -> None:
        theirs, self.write_to = os.pipe()
        self.read_from, to_us = os.pipe()
        command = [
            sys.executable, "-c", PIPED, str(theirs), str(to_us), str(BROWSER), "--headless=new", "--no-sandbox",
            "--disable-gpu", "--disable-background-networking", f"--user-data-dir={profile}", "--remote-debugging-pipe",
            f"--window-size={width},1000",
        ]  # fmt: skip
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = os.environ | {"HOME": str(profile)}
        self.process = subprocess.Popen(command, pass_fds=(theirs, to_us), env=environment, **quiet)  # type: ignore[call-overload]
        os.close(theirs)
        os.close(to_us)
        self.unread, self.number, self.session = b"", 0, ""
        try:
            target = self.ask("Target.createTarget", url=address)["targetId"]
            self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        except BaseException:
            self.__exit__()
            raise

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """Sends a command of Chromium's protocol and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": values}
        os.write(
            self.write_to, json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0"
        )
        while True:
            while b"\0" not in self.unread:
                data = os.read(self.read_from, 1 << 16)
                assert data, "Chromium has ended"
                self.unread += data
            first, _zero, self.unread = self.unread.partition(b"\0")
            answer = json.loads(first)
            if answer.get("id") == self.number:
                return dict(answer["result"])

    def value(self, script: str) -> Any:
        """What a script in the page returns."""
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def until(self, script: str) -> None:
        """Waits for a script in the page to return something true."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(script):
            assert time.monotonic() < deadline, self.value("document.body.innerText")
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of untouched stubs."""
    exercises = tmp_path / "exercises"
    exercises.mkdir()
    for name in choice.step_names(None, choice.CORE):
        source = stubs.original(paths.ROOT / "solutions" / "core" / name)
        (exercises / f"{name}.py").write_text(source, encoding="utf-8")
    return exercises


@pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with")
def test_saves_are_seen_in_a_browser(folder: Path, tmp_path: Path) -> None:
    """A save brings its heat maps beside the code, a button a hint, a fixed file its pass, and the end is said."""
    file = folder / f"{STEP}.py"
    with Session(folder, "4", "--page", terminal=False, BROWSER="true") as session:
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+", session.until("127.0.0.1", "to do"))
        assert address is not None
        with Tab(address[0], tmp_path / "profile") as tab:
            tab.until("document.body.innerText.includes('def causal_mask')")
            file.write_text(RIGHT.replace(".tril()", ".triu()"), encoding="utf-8")
            tab.until("document.querySelectorAll('.panels svg').length > 1")
            code, picture = tab.value(
                "['.listing', '.panels'].map(one => document.querySelector(one).getBoundingClientRect())"
                ".map(box => [box.left, box.right])"
            )
            assert code[1] <= picture[0]
            assert tab.value("document.querySelector('.listing .about').textContent.includes('def causal_mask')")
            tab.value("document.querySelector('[data-key=h]').click()")
            tab.until("document.body.innerText.includes('Hint 1 of 3')")
            file.write_text(RIGHT.replace(".tril()", ".tril("), encoding="utf-8")
            tab.until("document.querySelector('.calm')?.textContent.includes('^')")
            file.write_text(RIGHT, encoding="utf-8")
            tab.until("document.title.startsWith('✓')")
            tab.value("document.querySelector('[data-key=a]').click()")
            tab.until("document.querySelectorAll('[data-step]').length == 12")
            tab.value("document.querySelector('[data-step=step07_heads]').click()")
            tab.until("document.body.innerText.includes('def split_heads')")
            session.process.terminate()
            tab.until("!document.getElementById('lost').hidden")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with")
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
    server = LiveServer(lambda: (text, "default-src 'none'; style-src 'unsafe-inline'"), lambda key: None)
    with contextlib.closing(server), Tab(server.address, tmp_path / "profile") as tab:
        tab.ask("Emulation.setDeviceMetricsOverride", width=390, height=2000, deviceScaleFactor=1, mobile=True)
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


@pytest.fixture
def live() -> Iterator[tuple[LiveServer, list[str]]]:
    """A server, and the keys it was pressed."""
    pressed: list[str] = []
    server = LiveServer(lambda: ("page", "default-src 'none'"), pressed.append)
    with contextlib.closing(server):
        yield server, pressed


def asked(server: LiveServer, method: str, path: str, body: str | None = None, **headers: str) -> int:
    """The status of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        return connection.getresponse().status


def test_only_its_own_page_is_answered(live: tuple[LiveServer, list[str]]) -> None:
    """Nothing without the token, under a stranger's name, from a stranger's page, or longer than a key."""
    server, pressed = live
    own = {"Origin": f"http://127.0.0.1:{server.port}"}
    page, key = f"/{server.token}/", f"/{server.token}/key"
    assert asked(server, "GET", page) == 200
    assert asked(server, "GET", page, Host="attacker.example") == 404
    assert asked(server, "GET", "/") == 404
    assert asked(server, "GET", f"/{server.token[:-1]}/") == 404
    assert asked(server, "GET", f"/{server.token}") == 404
    assert asked(server, "GET", f"{page}../../etc/passwd") == 404
    assert asked(server, "POST", key, "h") == 404
    assert asked(server, "POST", key, "h", Origin="http://attacker.example") == 404
    assert asked(server, "POST", key, "h" * 65, **own) == 404
    assert asked(server, "POST", "/key", "h", **own) == 404
    assert asked(server, "DELETE", page) == 501
    assert pressed == []
    assert asked(server, "POST", key, "h", **own) == 204
    assert pressed == ["h"]


def test_it_listens_on_the_loopback_alone(live: tuple[LiveServer, list[str]]) -> None:
    """And its address says so."""
    server, _pressed = live
    assert server.address.startswith(f"http://127.0.0.1:{server.port}/")
    assert len(server.token) >= 20
