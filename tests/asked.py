"""The course's page without a browser: its cookie, and what it asks."""

from __future__ import annotations

import http.client
import json
import re
import time
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.watched import PATIENCE, Session


class Asked:
    """A visitor of a session's page, let in by the address that it has said."""

    def __init__(self, session: Session) -> None:
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+", session.until("127.0.0.1"))
        assert found is not None
        parts = urlsplit(found[0])
        self.host, self.cookie = parts.netloc, ""
        answer, _body = self._ask("GET", f"{parts.path}?{parts.query}", None)
        self.cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]

    def get(self, path: str, status: int = 200) -> Any:
        """What a path holds, out of its JSON where it is some."""
        return self._read("GET", path, None, status)

    def post(self, path: str, body: dict[str, Any], status: int = 200) -> Any:
        """What is answered to a question."""
        return self._read("POST", path, json.dumps(body).encode(), status)

    def until(self, path: str, holds: str) -> str:
        """What a path holds once these words are in it."""
        deadline = time.monotonic() + PATIENCE
        while holds not in (text := json.dumps(self.get(path), ensure_ascii=False)):
            assert time.monotonic() < deadline, f"no {holds} in {path}: {text}"
            time.sleep(0.2)
        return text

    def state(self) -> Any:
        """The state of the course: the first event of a stream."""
        headers = {"Cookie": self.cookie}
        with closing(http.client.HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            connection.request("GET", "/events", None, headers)
            answer = connection.getresponse()
            while not (line := answer.readline()).startswith(b"data: "):
                assert line, "no state"
            return json.loads(line.removeprefix(b"data: "))

    def settled(self) -> Any:
        """The state once nothing is being graded and nothing changes any more."""
        deadline, before = time.monotonic() + PATIENCE, None
        while True:
            time.sleep(0.7)
            state = self.state()
            if state == before and not state["pending"] and not state["ungraded"]:
                return state
            assert time.monotonic() < deadline, state
            before = state

    def _read(self, method: str, path: str, body: bytes | None, status: int) -> Any:
        answer, text = self._ask(method, path, body)
        assert answer.status == status, (path, answer.status, text[:500])
        return json.loads(text) if answer.headers["Content-Type"] == "application/json" else text

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {"Cookie": self.cookie, "Origin": f"http://{self.host}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer, answer.read()
