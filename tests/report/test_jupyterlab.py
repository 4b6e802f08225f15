"""A verdict in a real JupyterLab, in a real Chromium: in a notebook that it trusts, and in one that it doesn't, where
it takes the style sheet away; light and dark, wide and as wide as a phone, with the file browser closed.

It takes most of a minute, so that only `make check` does it."""

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

from tests.report.test_browser import BROWSER, CONTRAST, verdict
from tests.whole import WHOLE

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: make nbgrader installs it")
websocket = pytest.importorskip("websocket")
v4 = pytest.importorskip("nbformat.v4")
nbformat = pytest.importorskip("nbformat")

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with"),
    pytest.mark.skipif(not WHOLE, reason="it takes half a minute: make check does it"),
]
SEEN = (
    f"(() => {{{CONTRAST}"
    + """
  const verdict = [...document.querySelectorAll(".attention-verdict")].find(one => one.offsetWidth > 100);
  const image = verdict && verdict.querySelector("img");
  if (!image || !image.complete) return null;
  const box = one => { const r = one.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; };
  return JSON.stringify({
    styled: verdict.querySelector("style") !== null, image: image.naturalWidth,
    dt: [...verdict.querySelectorAll("dt")].map(box), dd: [...verdict.querySelectorAll("dd")].map(box),
    dark: document.body.dataset.jpThemeLight === "false", wide: verdict.getBoundingClientRect().width,
    contrast: Math.min(...[...verdict.querySelectorAll("dt, dd, p, summary")].map(contrast)),
    outside: verdict.scrollWidth - verdict.clientWidth, headings: verdict.querySelectorAll("h1, h2, h3, h4").length,
  });
})()
"""
)


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
            deadline = time.monotonic() + 300
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


def seen(browser: int, address: str, width: int) -> dict[str, Any]:
    """What a window at this address and so wide shows of the verdict, as soon as it shows it."""
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

    asked("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    asked("Page.navigate", url=address)
    # On a phone the file browser, which is open at first, leaves the notebook no room: one closes it.
    close = f"jupyterapp.restored.then(() => {width} > 500 || jupyterapp.shell.collapseLeft())"
    for _attempt in range(120):
        asked("Runtime.evaluate", expression=f"typeof jupyterapp === 'undefined' || ({close})", awaitPromise=True)
        value = asked("Runtime.evaluate", expression=SEEN)["result"].get("result", {}).get("value")
        if value:
            connection.close()
            return dict(json.loads(value))
        time.sleep(0.5)
    raise AssertionError(f"no verdict was seen at {address}")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_verdict_in_jupyterlab(theme: str, tmp_path: Path) -> None:
    """With and without its style sheet: whole labels beside their values, the picture, and no headings of ours."""
    settings = tmp_path / ".jupyter" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": f"JupyterLab {theme}"}))
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
        "--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.expose_app_in_browser=True",
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
        for name, styled, width in (("trusted", True, 1200), ("fresh", False, 1200), ("trusted", True, 390)):
            found = seen(browser, f"http://127.0.0.1:{lab}/lab/tree/{name}.ipynb?reset", width)
            assert (found["styled"], found["dark"]) == (styled, theme == "Dark")
            assert found["image"] > 100 and found["headings"] == 0
            assert found["contrast"] >= 4.5 and found["outside"] <= 1
            assert found["dt"], "no label was found"
            for label, value in zip(found["dt"], found["dd"], strict=True):
                assert label[3] < 30, "a label is broken into pieces"
                assert value[2] > min(300, 0.5 * found["wide"]), "a value is squeezed"
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)
