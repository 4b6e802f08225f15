"""Links that open a step's file in the learner's editor, by the scheme that the editor registers for itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

# By the command that starts the editor; {path} is absolute and starts with a slash.
SCHEMES = {
    "code": "vscode://file{path}:{line}",
    "code-insiders": "vscode-insiders://file{path}:{line}",
    "codium": "vscodium://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "subl": "subl://open?url=file://{path}&line={line}",
    "mate": "txmt://open?url=file://{path}&line={line}",
    "idea": "idea://open?file={path}&line={line}",
    "pycharm": "pycharm://open?file={path}&line={line}",
}
DEFAULT = "code"


def scheme(environment: Mapping[str, str] = os.environ) -> str:
    """The form of a link that opens the editor in use, with {path} and {line}: that of KIT_EDITOR, VISUAL or EDITOR,
    which may be such a form itself (`my://{path}:{line}`), else VS Code's if that is installed; empty if no link can
    open it."""
    for name in ("KIT_EDITOR", "VISUAL", "EDITOR"):
        chosen = environment.get(name, "").strip()
        if "{path}" in chosen:
            return chosen if "://" in chosen and not chosen.lower().startswith(("javascript", "data")) else ""
        command = Path(chosen.split()[0]).stem.lower() if chosen else ""
        if command in SCHEMES:
            return SCHEMES[command]
        if command:  # an editor of the terminal, as vim: it has no scheme
            return ""
    is_there = environment.get("TERM_PROGRAM") == "vscode" or shutil.which(DEFAULT, path=environment.get("PATH"))
    return SCHEMES[DEFAULT] if is_there else ""


def opens(file: Path, line: int, form: str) -> tuple[str, str]:
    """The link that opens a file at a line, empty without a form, and the path to copy instead."""
    return link(file, line, form), str(file.resolve())


def link(file: Path, line: int, form: str) -> str:
    """The address that opens a file at a line, by the form that `scheme` returns; empty for an empty form."""
    path = quote(file.resolve().as_posix())
    return form.replace("{path}", path if path.startswith("/") else f"/{path}").replace("{line}", str(max(line, 1)))
