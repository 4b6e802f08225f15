"""A page in a headless Chromium, for tests that look at one, press its keys and hear what it complains about."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import pytest

from grader.base import paths
from tests.watched import PATIENCE

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needed = pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
# Chromium reads commands from descriptor 3 and writes answers to 4.
PIPED = """
import os, sys
held = [os.dup(os.dup(int(number))) for number in sys.argv[1:3]]
for number, wanted in zip(held, (3, 4)):
    os.dup2(number, wanted)
os.execvp(sys.argv[3], sys.argv[3:])
"""
HEARD = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
# What a page's letters look like, and what of it goes beyond the window.
CONTRAST = """
const shade = text => (text.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const behind = one => {
  for (; one; one = one.parentElement) {
    const colour = shade(getComputedStyle(one).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const contrast = one => {
  const [a, b] = [light(shade(getComputedStyle(one).color)), light(behind(one))];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
};
"""
FITS = (
    "(() => {"
    + CONTRAST
    + """
const wide = document.documentElement.clientWidth;
const unseen = "svg, script, style, .unseen, .skip";
const said = [...document.querySelectorAll("body *")].filter(one => !one.closest(unseen) &&
  one.checkVisibility() && [...one.childNodes].some(part => part.nodeType === 3 && part.textContent.trim()));
const inside = ".scroll, .picture, .part, pre, .unseen, .skip, .look-tokens, .look-maps";
const names = found => found.map(one => `${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 40)}`);
return {
  sideways: document.documentElement.scrollWidth - wide,
  outside: names(said.filter(one => !one.closest(inside) && one.getBoundingClientRect().right > wide + 1)),
  faint: names(said.filter(one => !one.closest(":disabled") && contrast(one) < 4.5)),
  small: names(said.filter(one => parseFloat(getComputedStyle(one).fontSize) < 11)),
};
})()"""
)
AXE = paths.ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
axe_needed = pytest.mark.skipif(
    not AXE.is_file(), reason="to look: npm install --no-save --prefix .axe axe-core@4.14.1"
)
SERIOUS = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact) || ["empty-heading", "region"].includes(one.id))
  .map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")}`))"""
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), " ": (32, " "), "ArrowRight": (39, ""),
        "ArrowLeft": (37, ""), "ArrowDown": (40, ""), "ArrowUp": (38, "")}  # fmt: skip


class Tab:
    """A page in a headless Chromium, spoken to through a pair of pipes.

    `requests` are the addresses that it asked for, `complaints` what its console said.
    """

    def __init__(self, address: str, profile: Path, width: int = 1400, height: int = 1000) -> None:
        theirs, self.write_to = os.pipe()
        self.read_from, to_us = os.pipe()
        command = [
            sys.executable, "-c", PIPED, str(theirs), str(to_us), str(BROWSER), *FLAGS,
            f"--user-data-dir={profile}", "--remote-debugging-pipe", f"--window-size={width},{height}",
        ]  # fmt: skip
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = os.environ | {"HOME": str(profile)}
        self.process = subprocess.Popen(command, pass_fds=(theirs, to_us), env=environment, **quiet)  # type: ignore[call-overload]
        os.close(theirs)
        os.close(to_us)
        self.unread, self.number, self.session = b"", 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        try:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Runtime", "Log", "Network", "Page"):
                self.ask(f"{domain}.enable")
            self.look(width, height)
            self.open(address)
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
                if method == "Runtime.evaluate" and "error" in answer:  # a page that is still loading
                    return {"exceptionDetails": answer["error"], "result": {}}
                assert "result" in answer, answer
                return dict(answer["result"])
            self._hear(answer)

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        elif event.get("method") in HEARD:
            self.complaints.append(json.dumps(event["params"])[:500])

    def open(self, address: str) -> None:
        """Goes to an address."""
        self.ask("Page.navigate", url=address)

    def look(self, width: int, height: int = 1000, *, dark: bool = False) -> None:
        """Makes the window this wide, as on a phone where it is narrow, and light or dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, script: str) -> Any:
        """What a script in the page returns, awaited."""
        found = self._evaluated(script)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def _evaluated(self, script: str) -> dict[str, Any]:
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)

    def until(self, script: str) -> None:
        """Waits for a script in the page to return something true; while a page loads, it may fail."""
        deadline = time.monotonic() + PATIENCE
        while "exceptionDetails" in (found := self._evaluated(f"!!({script})")) or not found["result"].get("value"):
            assert time.monotonic() < deadline, (script, self.value("document.body.innerText"))
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Presses a key."""
        code, text = KEYS.get(key) or (ord(key.upper()), key)
        named = {"key": key, "windowsVirtualKeyCode": code} | ({"text": text} if text else {})
        self.ask("Input.dispatchKeyEvent", type="keyDown", **named)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **named)

    def misfits(self) -> dict[str, Any]:
        """What is too wide, too faint or too small to be read; empty where everything fits."""
        return {name: found for name, found in self.value(FITS).items() if found}

    def inaccessible(self) -> list[str]:
        """What axe finds serious in the page as it is."""
        if not self.value("!!window.axe"):
            self.value(AXE.read_text(encoding="utf-8") + "; true")
        return list(self.value(SERIOUS))

    def picture(self, file: Path) -> None:
        """Keeps what is seen, as a PNG."""
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
