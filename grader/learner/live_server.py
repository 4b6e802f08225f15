"""Serves watch mode's page on the loopback: the page, a stream of its states, and the keys that its buttons press.

Everything is below a token that only the session's terminal shows, so that other users of the machine and other pages
of the browser can neither read nor press. A request has to name this machine as its host, so that no name of a stranger
that leads here is answered.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOOPBACK = "127.0.0.1"
ALIVE_SECONDS = 10.0  # between two signs of life, by which a closed browser is noticed
MOST_BYTES = 64  # of a key
MOST_STREAMS = 8


class LiveServer:
    """The server of one session; `address` is the page's."""

    def __init__(self, shell: Callable[[], tuple[str, str]], press: Callable[[str], None]) -> None:
        self.shell, self.press = shell, press
        self.token = secrets.token_urlsafe(16)
        self.changed = threading.Condition()
        self.sent = ""
        self.number = 0
        self.streams = threading.Semaphore(MOST_STREAMS)
        self.closed = False
        self._server = ThreadingHTTPServer((LOOPBACK, 0), type("Handler", (_Handler,), {"live": self}))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.address = f"http://{LOOPBACK}:{self.port}/{self.token}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
        self._thread.start()

    def show(self, state: dict[str, str]) -> None:
        """Sends a state to every open page, and to those that open later."""
        with self.changed:
            self.sent, self.number = json.dumps(state), self.number + 1
            self.changed.notify_all()

    def close(self) -> None:
        """Ends the streams and the server."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    live: LiveServer
    server_version, sys_version = "kit", ""
    timeout = 30.0

    def do_GET(self) -> None:
        path = self._asked()
        if path == "":
            text, policy = self.live.shell()
            self._begin(200, "text/html; charset=utf-8", {"Content-Security-Policy": policy}, text.encode())
        elif path == "events" and self.live.streams.acquire(blocking=False):
            try:
                self._stream()
            finally:
                self.live.streams.release()
        else:
            self._begin(404, "text/plain", {}, b"")

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        fits = size.isdecimal() and size.isascii() and len(size) < 4 and int(size) <= MOST_BYTES
        own = self.headers.get("Origin") == f"http://{self.headers.get('Host')}"
        if self._asked() != "key" or not fits or not own:
            self._begin(404, "text/plain", {}, b"")
            return
        self.live.press(self.rfile.read(int(size)).decode("utf-8", "ignore"))
        self._begin(204, "text/plain", {}, b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is the session's."""

    def _asked(self) -> str | None:
        """The path below the token; None where the request is not from the session's page."""
        hosts = {f"{LOOPBACK}:{self.live.port}", f"localhost:{self.live.port}"}
        token, slash, path = self.path.removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode(), self.live.token.encode())
        return path if known and slash and self.headers.get("Host") in hosts else None

    def _stream(self) -> None:
        self._begin(200, "text/event-stream", {}, None)
        seen = 0
        with contextlib.suppress(OSError):  # the browser has gone
            while not self.live.closed:
                with self.live.changed:
                    self._wait(seen)
                    text, new, seen = self.live.sent, self.live.number > seen, self.live.number
                self.wfile.write(f"data: {text}\n\n".encode() if new else b": alive\n\n")

    def _wait(self, seen: int) -> None:
        """Until there is more than the state `seen`, or it is time for a sign of life."""
        self.live.changed.wait_for(lambda: self.live.closed or self.live.number > seen, ALIVE_SECONDS)

    def _begin(self, status: int, kind: str, headers: dict[str, str], body: bytes | None) -> None:
        self.send_response(status)
        also = {} if body is None else {"Content-Length": str(len(body))}
        plain = {
            "Content-Type": kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }  # fmt: skip
        for name, value in {**plain, **headers, **also}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(body)
