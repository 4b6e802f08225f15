"""The page's server is not stopped by who asks for too much, or for nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from grader.base import files
from grader.web import server as pages


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
