"""A lab's page: one self-contained file without scripts, for light and dark, wide and narrow screens."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from grader.base import language
from grader.base.language import gettext as _
from grader.report.page import environment

if TYPE_CHECKING:
    from grader.labs.lab import LabRun

TEMPLATES = Path(__file__).parent / "templates"


def html(outcome: LabRun, refresh: int | None = None) -> str:
    """The whole page, in the language in use; with `refresh` it loads itself again every so many seconds."""
    module, results = outcome.lab.module, outcome.bench.results
    return filled(
        title=outcome.lesson.title,
        about=outcome.lesson.about,
        question=outcome.lesson.question,
        answers=outcome.lesson.answers,
        prediction=outcome.prediction,
        stopped=outcome.stopped,
        whose=outcome.whose,
        findings=module.findings(results),
        pictures=module.pictures(results),
        tables=module.tables(results),
        to_see=outcome.lesson.to_see,
        facts=facts(outcome.bench.device, outcome.bench.seed, outcome.bench.elapsed),
        refresh=refresh,
    )


def filled(**values: Any) -> str:
    """The template with these values; texts of lessons are Markdown."""
    for name in ("about", "question", "to_see"):
        values[name] = markdown(values[name])
    values["pictures"] = [(one.title, Markup(one.svg), one.alt) for one in values["pictures"]]
    return environment(TEMPLATES).get_template("lab.html.j2").render(language=language.current(), **values)


def markdown(text: str) -> Markup:
    """A lesson's Markdown as HTML; HTML in it is escaped."""
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def facts(device: str, seed: int, seconds: float) -> list[tuple[str, str]]:
    """What the run was: machine, seed, time."""
    import torch

    from grader.calls import devices

    name = platform.machine() if device == devices.CPU else devices.label(device)
    return [
        (_("device"), f"{device} ({name})"),
        (_("threads"), str(torch.get_num_threads())),
        ("torch", torch.__version__.partition("+")[0]),
        (_("seed"), str(seed)),
        (_("seconds"), f"{seconds:.0f}"),
    ]
