"""An address with a secret is opened without showing the secret to other users of the machine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.base.open_private import open_private

SECRET = "token-that-nobody-else-may-see"
ADDRESS = f"http://127.0.0.1:1/{SECRET}/?a=1&b=2"
LOOK = 'cat "$1"; cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " "'
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder into which every user may look, as a course's folder often is."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may look as another user")
def test_another_user_finds_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the arguments of any process while the browser runs, nor in the file that it opens."""
    looked = []

    def browser(address: str) -> bool:
        with subprocess.Popen([sys.executable, "-c", "input()", address], stdin=subprocess.PIPE) as running:
            place = address.removeprefix("file://")
            command = ["/bin/sh", "-c", LOOK, "sh", place]
            looked.append(subprocess.run(command, user=NOBODY, capture_output=True, text=True, check=False))
            running.communicate(b"\n")
        return True

    monkeypatch.setattr("webbrowser.open", browser)
    page = open_private(ADDRESS, folder)
    assert page is not None
    assert page.as_uri() in looked[0].stdout  # it sees the browser and its argument
    assert "denied" in looked[0].stderr.lower()
    assert SECRET not in looked[0].stdout


def test_the_page_leads_to_the_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is its owner's alone."""
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    page = open_private(ADDRESS, folder)
    assert page is not None
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert ADDRESS.replace("&", "&amp;") in page.read_text(encoding="utf-8")


def test_without_a_browser_nothing_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No browser: no page."""
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert open_private(ADDRESS, folder) is None
    assert list(folder.iterdir()) == []
