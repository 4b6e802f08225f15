"""Serves the course's page on the loopback, to the browser that was let in and to no other.

Who may ask is decided here, before any route: a request names this machine as its host (so that no stranger's name that
leads here is answered), has the session's cookie (so that other users of the machine are not), and one that changes
something comes from the page itself. The cookie is set by `/enter`, with a token from a file that only this user can
read: no command line shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import re
import secrets
import socket
import struct
import threading
import traceback
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from grader.base import language
from grader.base.language import gettext as _
from grader.base.open_private import open_private
from grader.report import page as report_page

LOOPBACK = "127.0.0.1"
PORTS = range(20000, 30000)  # a folder has its own, if it is free: an open page finds the session after a restart
ASSETS = Path(__file__).parent / "assets"
TEMPLATES = Path(__file__).parent / "templates"
ALIVE_SECONDS = 10.0  # between two signs of life, by which a closed browser is noticed
MOST_BYTES = 64 * 1024  # of a request
MOST_STREAMS, MOST_CONNECTIONS = 32, 200
CONNECTIONS, ESTABLISHED = Path("/proc/net/tcp"), "01"
SILENT_SECONDS = 10.0  # for the first request of a connection
PLACE = re.compile(r"/(?![/\\])[^\s\\\x00-\x20\x7f]*+")  # a browser leaves out tabs and line breaks
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


async def _malformed(request: Request, error: Exception) -> Response:
    """The response to a request with a body that is no JSON."""
    return JSONResponse({"error": _("This is no JSON that the page sends.")}, 400)


MALFORMED = dict.fromkeys((json.JSONDecodeError, UnicodeDecodeError, RecursionError), _malformed)


def is_of_this_user(peer: tuple[str, int]) -> bool:
    """Whether the other end of a connection from this machine is this user's, or root's, as that of a tunnel may be;
    True if the system does not tell (all but Linux). A browser sends a cookie to every port of a host: another user's
    server may have read ours."""
    try:
        table = CONNECTIONS.read_text("ascii").splitlines()[1:]
    except OSError:
        return True
    (number,) = struct.unpack("=I", socket.inet_aton(peer[0]))
    place = f"{number:08X}:{peer[1]:04X}"
    ends = (line.split()[1:8] for line in table)
    # Of a connection that is closed already nothing tells the user.
    return any(
        (local, state) == (place, ESTABLISHED) and int(user) in (0, os.getuid())
        for local, _remote, state, _queues, _timer, _retries, user in ends
    )


class BoundedConnection(H11Protocol):
    """A connection that is ended when it asks for nothing, or is one too many: each takes a file descriptor."""

    def connection_made(self, transport: Any) -> None:
        """Takes a new connection; ends it if there are too many, or if it is another user's."""
        if len(self.connections) >= MOST_CONNECTIONS or not is_of_this_user(transport.get_extra_info("peername")):
            transport.abort()
            return
        super().connection_made(transport)
        self.loop.call_later(SILENT_SECONDS, self._end_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets a connection that was taken; one that was refused is unknown."""
        if getattr(self, "transport", None) is not None:
            super().connection_lost(exc)

    def _end_if_silent(self) -> None:
        """Ends the connection if it has not sent a request yet."""
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()


class PageServer:
    """The server of one session; it runs in a thread of its own until it is closed. `report` is told of each fault of
    ours, once: a sentence; the page is told the same."""

    def __init__(
        self, routes: Sequence[BaseRoute], port: int = 0, report: Callable[[str], None] = print, token: str = ""
    ) -> None:
        """Starts to serve on a port of the loopback, in a thread."""
        self._report = report
        self._reported: set[str] = set()
        self.token = token or secrets.token_urlsafe(24)
        self._listener = _listener(port)
        self.port: int = self._listener.getsockname()[1]
        self.origin = f"http://{LOOPBACK}:{self.port}"
        self.events = Events()
        self._opened: Path | None = None
        own = [
            Route("/enter", self._enter),
            Route("/events", self.events.stream),
            *(Route(f"/assets/{name}", _shared(name)) for name in ("pictures.js", "pictures.css", "palette.css")),
            Mount("/assets", StaticFiles(directory=ASSETS)),
        ]
        app = Starlette(routes=[*own, *routes], exception_handlers={Exception: self._failed, **MALFORMED})
        guarded = Guard(app, self.port, self.token, language.current())
        config = uvicorn.Config(
            guarded, log_level="critical", access_log=False, lifespan="off", ws="none", http=BoundedConnection,
            server_header=False, date_header=False, timeout_graceful_shutdown=1, timeout_keep_alive=30,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._server.run, [self._listener]), daemon=True)
        self._thread.start()

    def address(self, place: str = "/") -> str:
        """The address that lets a browser in and leads it to `place`, a path of the page. It has the token in it."""
        return f"{self.origin}/enter?token={self.token}&place={place}"

    def open(self, place: str = "/") -> bool:
        """Opens the page at `place`, a path, in a browser; False without a browser."""
        self._opened = open_private(self.address(place))
        return self._opened is not None

    def close(self) -> None:
        """Ends all streams and the server's thread."""
        self.events.close()
        self._server.should_exit = True
        self._thread.join(3.0)
        self._listener.close()
        if self._opened:
            self._opened.unlink(missing_ok=True)

    async def _failed(self, request: Request, error: Exception) -> Response:
        """The response to an error of the kit's own: one sentence, which is also reported on the terminal, once."""
        at = traceback.extract_tb(error.__traceback__)[-1]
        sentence = _("The page met a fault of its own at {path}: {error} ({file}, line {line}).").format(
            path=request.url.path, error=f"{type(error).__name__}: {error}", file=Path(at.filename).name, line=at.lineno
        )
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._report(sentence)
        return JSONResponse({"error": sentence}, 500)

    async def _enter(self, request: Request) -> Response:
        """Lets a browser in: a page that sets the cookie and leads on by itself. A cookie for this site alone is not
        sent with a redirect that a file started."""
        place = request.query_params.get("place", "/")
        safe = place if PLACE.fullmatch(place) else "/"
        text = report_page.environment(TEMPLATES).get_template("open.html.j2").render(address=safe)
        response = HTMLResponse(text, headers={"Content-Security-Policy": "default-src 'none'"})
        response.set_cookie(cookie_name(self.port), self.token, httponly=True, samesite="strict")
        return response


class Guard:
    """Refuses every request that is not from the session's own page, and adds what every response says."""

    def __init__(self, app: ASGIApp, port: int, token: str, spoken: str) -> None:
        """Lets requests through to `app` that have the session's token; its refusals are in the language `spoken`."""
        self.app, self.token, self.spoken, self.cookie = app, token, spoken, cookie_name(port)
        self.hosts = {f"{LOOPBACK}:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on to the app, or refuses it; adds the headers that every response has."""
        if scope["type"] != "http":
            return
        with language.use(self.spoken):
            refused = self._refused(Request(scope))
            app: ASGIApp = _refusal(Request(scope), refused) if refused else self.app
            await app(scope, receive, _with_headers(send))

    def _refused(self, request: Request) -> int:
        """The status to refuse a request with: 404 for another host, 403 for a wrong token or a change from another
        page; 0 if it is let through."""
        headers = request.headers
        if headers.get("host") not in self.hosts:
            return 404
        token = request.query_params.get("token") if request.url.path == "/enter" else self._held_token(headers)
        if not secrets.compare_digest((token or "").encode(), self.token.encode()):
            return 403
        if request.method in ("GET", "HEAD"):
            return 0
        size = headers.get("content-length", "")
        fits = size.isdecimal() and size.isascii() and len(size) < 8 and int(size) <= MOST_BYTES
        own = headers.get("origin") == f"http://{headers.get('host')}"
        return 0 if own and fits and headers.get("content-type") == "application/json" else 403

    def _held_token(self, headers: Headers) -> str:
        """The token in the session's cookie; empty without one."""
        held = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        return held.value if held else ""


class Events:
    """One stream of what has changed, to every open page."""

    def __init__(self) -> None:
        self._queues: dict[asyncio.Queue[str | None], asyncio.AbstractEventLoop] = {}
        self._first = ""

    def tell(self, kind: str, what: dict[str, Any], *, stays: bool = False) -> None:
        """Sends an event and its JSON to the open pages; one that `stays` also to each page that opens later, until the
        next such event."""
        frame = f"event: {kind}\ndata: {json.dumps(what, ensure_ascii=False)}\n\n"
        if stays:
            self._first = frame
        self._send(frame)

    def close(self) -> None:
        """Ends every stream."""
        self._send(None)

    async def stream(self, request: Request) -> Response:
        """A page's stream of events, the state first; 503 if MOST_STREAMS are open."""
        if len(self._queues) >= MOST_STREAMS:
            return PlainTextResponse("", 503)
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._queues[queue] = asyncio.get_running_loop()  # counted at once: many may come before one is read
        return StreamingResponse(self._frames(queue), media_type="text/event-stream")

    async def _frames(self, queue: asyncio.Queue[str | None]) -> AsyncIterator[str]:
        """The frames of one page's stream: the state, each event, and a sign of life every ALIVE_SECONDS; ends at
        None."""
        try:
            yield "retry: 1000\n\n" + self._first
            while True:
                try:
                    frame = await asyncio.wait_for(queue.get(), ALIVE_SECONDS)
                except TimeoutError:
                    frame = ": alive\n\n"
                if frame is None:
                    return
                yield frame
        finally:
            self._queues.pop(queue, None)

    def _send(self, frame: str | None) -> None:
        """Sends a frame to every open page; None ends their streams."""
        for queue, loop in list(self._queues.items()):
            with contextlib.suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, frame)


def _refusal(request: Request, status: int) -> Response:
    """An empty response with this status; for a person who opened a refused address, a page that says what to do."""
    if status != 403 or request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse("", status)
    text = report_page.environment(TEMPLATES).get_template("closed.html.j2").render(**report_page.template_values())
    return HTMLResponse(text, status, {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})


def cookie_name(port: int) -> str:
    """The name of a session's cookie: browsers keep one jar for all ports of a host."""
    return f"course-{port}"


def _shared(name: str) -> Callable[[Request], Response]:
    """A route's function that answers with a file of the report's templates."""
    return lambda request: FileResponse(report_page.TEMPLATES / name)


def port_of(folder: Path) -> int:
    """The port that a folder's page is served on if it is free, the same every time."""
    return PORTS[zlib.crc32(bytes(folder.resolve())) % len(PORTS)]


def _listener(port: int) -> socket.socket:
    """A listening socket on the loopback, on this port if it is free, else on any."""
    for wanted in (port, 0):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, wanted))
            listener.listen()
        except OSError:
            listener.close()
            if not wanted:
                raise
        else:
            return listener
    raise AssertionError("a free port was refused")


def _with_headers(send: Send) -> Send:
    """An ASGI `send` that passes messages on to the given one, and adds the headers that every response has to those
    that lack them."""

    async def sending(message: Message) -> None:
        """Sends a message, the start of a response with further headers."""
        if message["type"] == "http.response.start":
            said = {name.lower() for name, _value in message["headers"]}
            every = {"Content-Security-Policy": POLICY, **HEADERS}
            message["headers"] = [
                *message["headers"],
                *(
                    (name.lower().encode(), value.encode())
                    for name, value in every.items()
                    if name.lower().encode() not in said
                ),
            ]
        await send(message)

    return sending
