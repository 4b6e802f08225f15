"""What the page's modules say, in the language in use: they look an English sentence up."""

from __future__ import annotations

from collections.abc import Iterable

from grader.base.language import N_
from grader.base.language import gettext as _

TEXTS = (
    N_("Attention from scratch"), N_("Lesson"), N_("Verdict"), N_("Course"), N_("Explore"), N_("Run again"),
    N_("The session has ended. To continue, type: make course"), N_("Lab"),
)  # fmt: skip


def texts(further: Iterable[str] = ()) -> dict[str, str]:
    """Each sentence of the page's modules, by its English."""
    return {english: _(english) for english in (*TEXTS, *further)}
