"""The page's server is not stopped by who asks for too much, or for nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

pytest.importorskip("uvicorn")

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from grader.base import files
from grader.web import server as pages
from tests import browser, hostile


async def echo(request: Request) -> Response:
    return JSONResponse(await request.json())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[pages.PageServer]:
    monkeypatch.setattr(pages, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(pages, "MOST_CONNECTIONS", 20)
    running = pages.PageServer([Route("/echo", echo, methods=["POST"])], port=0)
    yield running
    running.close()


def asked(server: pages.PageServer, method: str, place: str, body: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(pages.LOOPBACK, server.port, timeout=60)
    headers = {"Cookie": f"{pages.cookie_name(server.port)}={server.token}", "Origin": server.origin}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, place, body, headers)
    with contextlib.closing(connection):
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    "place", ["/%09/evil.com", "//evil.com", "/%0a/evil.com", "/%5cevil.com", "https://evil.com", "/%20"]
)
def test_nobody_is_led_elsewhere(server: pages.PageServer, place: str) -> None:
    status, text = asked(server, "GET", f"/enter?token={server.token}&place={place}")
    assert status == 200 and b"evil" not in text
    assert b"/step/4" in asked(server, "GET", f"/enter?token={server.token}&place=/step/4")[1]


@pytest.mark.parametrize("body", ["{", "\ud800", "[" * 20_000])
def test_what_is_no_json_is_said(server: pages.PageServer, body: str) -> None:
    status, text = asked(server, "POST", "/echo", body.encode("utf-8", "surrogatepass").decode("latin-1"))
    assert status == 400 and "error" in json.loads(text)


def test_silent_connections_end(server: pages.PageServer) -> None:
    """More than are taken at once: the page answers as soon as they are ended."""
    silent = [socket.create_connection((pages.LOOPBACK, server.port)) for _number in range(60)]
    for connection in silent:
        connection.settimeout(60)
        with contextlib.suppress(ConnectionError), connection:
            assert connection.recv(1) == b""
    assert asked(server, "POST", "/echo", "{}") == (200, b"{}")


def test_connections_beyond_the_most_are_not_taken(
    server: pages.PageServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever they wait for; nothing of it is said on the terminal."""
    monkeypatch.setattr(pages, "SILENT_SECONDS", 600.0)
    with contextlib.ExitStack() as open_ones:
        connect = socket.create_connection
        silent = [open_ones.enter_context(connect((pages.LOOPBACK, server.port))) for _number in range(60)]
        for connection in silent:
            connection.settimeout(2.0)
        ended = 0
        for connection in silent[::-1]:
            with contextlib.suppress(TimeoutError, ConnectionError):
                ended += connection.recv(1) == b""
            if ended == 40:
                break
        assert ended == 40
        silent[0].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[0].recv(1)
    assert capfd.readouterr() == ("", "")


def test_streams_are_counted_as_they_come(server: pages.PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_STREAMS", 3)
    opened = []
    for _number in range(8):
        connection = http.client.HTTPConnection(pages.LOOPBACK, server.port, timeout=60)
        connection.request("GET", "/events", headers={"Cookie": f"{pages.cookie_name(server.port)}={server.token}"})
        opened.append(connection)
    with contextlib.ExitStack() as open_ones:
        for connection in opened:
            open_ones.callback(connection.close)
        statuses = [open_ones.enter_context(connection.getresponse()).status for connection in opened]
    assert sorted(statuses) == [200] * 3 + [503] * 5


def test_two_threads_write_two_files(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _time in range(50):
            files.write(tmp_path / str(number), f"{number}" * 10_000)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert all((tmp_path / str(number)).read_text() == f"{number}" * 10_000 for number in range(4))


COLLECTED = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
connection.request("GET", "/assets/icon.svg", headers={"Cookie": sys.argv[2]})
print(connection.getresponse().status)
"""


class Collector(BaseHTTPRequestHandler):
    """Another local server, which notes the cookies that it is sent."""

    cookies: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_given: object) -> None:
        """Says nothing."""


@pytest.mark.thorough
@browser.needed
def test_a_cookie_that_another_server_was_sent_lets_no_other_user_in(server: pages.PageServer, tmp_path: Path) -> None:
    """Cookies know no port: a browser that is led to another local server hands it ours."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    try:
        hostile.require_ordinary_user()
    except hostile.NoOtherUser as error:
        pytest.skip(str(error))
    other = ThreadingHTTPServer((pages.LOOPBACK, 0), Collector)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        with browser.Tab(server.address("/assets/icon.svg"), tmp_path) as tab:
            tab.until("location.pathname.endsWith('icon.svg')")
            tab.open(f"http://{pages.LOOPBACK}:{other.server_port}/")
            tab.until(f"location.port == {other.server_port}")
    finally:
        other.shutdown()
        other.server_close()
    stolen = next(cookie for cookie in Collector.cookies if server.token in cookie)
    command = [sys.executable, "-c", COLLECTED, str(server.port), stolen]
    for asking, status in ((command, "200"), (hostile.as_an_ordinary_user(command), "")):
        done = subprocess.run(asking, capture_output=True, text=True, timeout=300)
        assert done.stdout.strip() == status, done.stderr


def test_the_table_of_connections_says_whose_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "   0: 0100007F:C35A 0100007F:2221 {state} 00000000:00000000 00:00000000 00000000 {user:5}        0 1 1 0\n"
    monkeypatch.setattr(pages, "CONNECTIONS", tmp_path / "tcp")
    peer = ("127.0.0.1", 0xC35A)
    assert pages.is_of_this_user(peer), "no system but Linux has the table"
    for state, user, is_ours in (("01", os.getuid(), True), ("01", 4711, False), ("06", os.getuid(), False)):
        (tmp_path / "tcp").write_text("  sl  local_address rem_address   st\n" + row.format(state=state, user=user))
        assert pages.is_of_this_user(peer) is is_ours
        assert not pages.is_of_this_user(("127.0.0.1", 4))
