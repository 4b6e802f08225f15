"""The solution of a step for the terminal: the reference, then other right ways with what they trade."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from grader.base.language import gettext as _


def terminal(step: str, reference: str, ways: Sequence[tuple[str, str, str]]) -> RenderableType:
    """The code of the reference and of each other way for rich to print. A way is its name, a sentence on what it
    trades for what, and its code."""
    shown: list[RenderableType] = [Text(f"{step}: " + _("the reference"), "bold"), Text(), _code(reference)]
    for name, trades, code in ways:
        shown += [Text(), Text(name, "bold"), Text(trades), Text(), _code(code)]
    if not ways:
        shown += [Text(), Text(_("No other way is kept for this step."), "dim")]
    return Group(*shown)


def _code(text: str) -> Text:
    return Text(text.strip("\n"), "cyan")
