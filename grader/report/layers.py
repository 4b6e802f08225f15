"""The consequences of a missing layer of isolation, for those who decide what code they grade there."""

from __future__ import annotations

from collections.abc import Collection

from grader.base.language import gettext as _


def missing(isolation: Collection[str]) -> list[str]:
    """One sentence for each layer of Linux that `isolation`, the names of those in force, lacks; the most important
    first."""
    meaning = {
        "seccomp": _("Without seccomp a submission may open connections, start programs and signal other processes."),
        "landlock": _("Without landlock a submission may read every file that the grading user may read."),
        "namespaces": _(
            "Without namespaces a submission sees the machine's processes and network, and how much it writes to files "
            "is only measured now and then."
        ),
    }
    return [sentence for layer, sentence in meaning.items() if layer not in isolation]
