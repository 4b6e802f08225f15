"""A verdict in a real JupyterLab, in a real Chromium: in a notebook that it trusts, and in one that it doesn't, where
it takes the style sheet away. It takes half a minute, so that only `make check` does it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.test_browser import BROWSER, verdict
from tests.whole import WHOLE

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: make release installs it")
websocket = pytest.importorskip("websocket")
v4 = pytest.importorskip("nbformat.v4")
nbformat = pytest.importorskip("nbformat")

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with"),
    pytest.mark.skipif(not WHOLE, reason="it takes half a minute: make check does it"),
]
SEEN = """
(() => {
  const verdict = [...document.querySelectorAll(".attention-verdict")].find(one => one.offsetWidth > 100);
  const image = verdict && verdict.querySelector("img");
  if (!image || !image.complete) return null;
  const box = one => { const r = one.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; };
  return JSON.stringify({
    styled: verdict.querySelector("style") !== null, image: image.naturalWidth,
    dt: [...verdict.querySelectorAll("dt")].map(box), dd: [...verdict.querySelectorAll("dd")].map(box),
    headings: verdict.querySelectorAll("h1, h2, h3, h4").length,
  });
})()
"""


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(command: list[str], folder: Path, address: str) -> Iterator[None]:
    """A program that answers at an address, until the end."""
    environment = os.environ | {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **quiet) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    with urlopen(address, timeout=5):
                        break
                except OSError:
                    assert process.poll() is None and time.monotonic() < deadline, command
                    time.sleep(0.2)
            yield
        finally:
            process.terminate()
            time.sleep(1)
            with suppress(ProcessLookupError):  # a server that has a kernel waits for a word from the keyboard
                os.killpg(process.pid, signal.SIGKILL)


def seen(browser: int, address: str) -> dict[str, Any]:
    """What a window at this address shows of the verdict, as soon as it shows it."""
    with urlopen(f"http://127.0.0.1:{browser}/json/list") as answer:
        window = next(one for one in json.load(answer) if one["type"] == "page")
    connection = websocket.create_connection(window["webSocketDebuggerUrl"], timeout=30, suppress_origin=True)
    numbers = iter(range(1, 1000))

    def asked(method: str, **given: object) -> Any:
        number = next(numbers)
        connection.send(json.dumps({"id": number, "method": method, "params": given}))
        while (said := json.loads(connection.recv())).get("id") != number:
            pass
        return said

    asked("Page.navigate", url=address)
    for _attempt in range(120):
        value = asked("Runtime.evaluate", expression=SEEN)["result"].get("result", {}).get("value")
        if value:
            connection.close()
            return dict(json.loads(value))
        time.sleep(0.5)
    raise AssertionError(f"no verdict was seen at {address}")


def test_a_verdict_in_jupyterlab(tmp_path: Path) -> None:
    """With and without its style sheet: whole labels beside their values, the picture, and no headings of ours."""
    for name in ("trusted", "fresh"):
        output = v4.new_output("display_data", data={"text/html": verdict()})
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        cell = v4.new_code_cell(f"check(2)  # {name}", outputs=[output])
        nbformat.write(v4.new_notebook(cells=[cell], metadata=kernel), tmp_path / f"{name}.ipynb")
    trusting = [sys.executable, "-m", "jupyter", "trust", "trusted.ipynb"]
    subprocess.run(trusting, cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, check=True, capture_output=True)
    lab, browser = free_port(), free_port()
    server = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={lab}", "--ip=127.0.0.1",
        "--IdentityProvider.token=", "--ServerApp.password=",
    ]  # fmt: skip
    chromium = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--remote-debugging-port={browser}", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,1000",
        "about:blank",
    ]  # fmt: skip
    with (
        running(server, tmp_path, f"http://127.0.0.1:{lab}/api"),
        running(chromium, tmp_path, f"http://127.0.0.1:{browser}/json/version"),
    ):
        for name, styled in (("trusted", True), ("fresh", False)):
            found = seen(browser, f"http://127.0.0.1:{lab}/lab/tree/{name}.ipynb?reset")
            assert found["styled"] is styled
            assert found["image"] > 100 and found["headings"] == 0
            assert found["dt"], "no label was found"
            for label, value in zip(found["dt"], found["dd"], strict=True):
                assert label[3] < 30, "a label is broken into pieces"
                assert value[2] > 300, "a value is squeezed"
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)
