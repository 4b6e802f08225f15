"""Opens an address that holds a secret in the browser. Every user of a machine can read the arguments of every process,
a browser's too: so the browser is given a file that only its user can read, which redirects."""

from __future__ import annotations

import contextlib
import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path

from grader.base.paths import ROOT

FOLDER = ROOT / "dist"  # not the temporary folder, and not a hidden one: browsers in a snap can't read those
PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">\n'


def open_private(address: str, folder: Path = FOLDER) -> Path | None:
    """Opens `address` in the browser by way of a file of mode 0600 in `folder`, or in the temporary folder. Returns the
    file's path: the caller removes it when the session ends.

    None if there is no browser, and then no file.
    """
    try:
        folder.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(".html", "page-", folder)
    except OSError:  # a read-only copy of the kit
        handle, name = tempfile.mkstemp(".html", "page-")
    page = Path(name).resolve()
    with os.fdopen(handle, "w", encoding="utf-8") as file:  # mkstemp made it 0600
        file.write(PAGE.format(address=escape(address)))
    with contextlib.suppress(webbrowser.Error):
        if webbrowser.open(page.as_uri()):
            return page
    page.unlink()
    return None
