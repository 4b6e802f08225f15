"""A lab's page: one self-contained file without scripts, for light and dark, wide and narrow screens."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.base import files, language
from grader.base.language import gettext as _
from grader.labs import plot
from grader.labs.lab import LabRun, Plot
from grader.report.page import environment, formatted

TEMPLATES = Path(__file__).parent / "templates"
REFRESH = 5  # seconds after which a page of a running lab loads itself again


def write(outcome: LabRun, folder: Path) -> Path:
    """Writes a run's page into the folder, and its figures as JSON next to it; returns the page's path."""
    judgement = outcome.judged
    page = _write_page(html(outcome), outcome, folder)
    record = {
        "lab": outcome.lab.name, "language": language.current(), "prediction": outcome.prediction,
        "stopped": outcome.stopped,
        "answer": judgement.answer, "answered": outcome.answered() if outcome.lesson.answers else [],
        "seed": outcome.bench.seed, "device": outcome.bench.device, "seconds": round(outcome.bench.elapsed, 1),
        "whose": {step: part.whose for step, part in outcome.bench.parts.items()}, "rows": outcome.bench.results.rows,
    }  # fmt: skip
    files.write(page.with_suffix(".json"), json.dumps(record, ensure_ascii=False, indent=1) + "\n")
    return page


def write_so_far(outcome: LabRun, folder: Path) -> None:
    """Writes the page with what is measured so far, which reloads itself in the browser; nothing if it can't be drawn
    yet."""
    with contextlib.suppress(LookupError, OSError):  # a lab keeps some of its figures at its end
        _write_page(html(outcome, refresh=REFRESH), outcome, folder)


def _write_page(text: str, outcome: LabRun, folder: Path) -> Path:
    """Writes HTML as the page of a lab into the folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{outcome.lab.name}.html"
    files.write(page, text)
    return page


def html(outcome: LabRun, refresh: int | None = None) -> str:
    """The run's whole page as HTML, in the language in use; with `refresh` it reloads itself every so many seconds."""
    return _template("lab.html.j2", **_values(outcome) | {"refresh": refresh})


def fragment(outcome: LabRun) -> Markup:
    """The content of the run's page as HTML, for another page that has its style sheet."""
    return Markup(_template("lab_body.html.j2", **_values(outcome)))


def _values(outcome: LabRun) -> dict[str, Any]:
    """The variables of the page's template for this run."""
    module, results = outcome.lab.module, outcome.bench.results
    to_see, left_out = outcome.to_see()
    return values(
        title=outcome.lesson.title,
        about=outcome.lesson.about,
        question=outcome.lesson.question,
        answers=outcome.lesson.answers,
        prediction=outcome.prediction,
        stopped=outcome.stopped,
        whose=outcome.whose,
        answered=outcome.answered() if results.rows and outcome.lesson.answers else [],
        findings=module.findings(results),
        pictures=lambda: module.pictures(results),
        tables=module.tables(results),
        to_see=to_see,
        left_out=left_out,
        facts=facts(outcome.bench.device, outcome.bench.seed, outcome.bench.elapsed),
    )


def values(*, pictures: Callable[[], list[Plot]], **others: Any) -> dict[str, Any]:
    """The variables of the page's templates: `others`, with the Markdown of about, question and to_see as HTML, and
    each of `pictures()` twice, for wide and for narrow screens."""
    for name in ("about", "question", "to_see"):
        others[name] = formatted(others[name])
    wide = pictures()
    with plot.narrow():
        narrow = pictures()
    drawn = [
        (large.title, Markup(large.svg), Markup(other.svg), large.alt)
        for large, other in zip(wide, narrow, strict=True)
    ]
    return {"answered": [], "left_out": "", "stopped": False, "refresh": None, "pictures": drawn, **others}


def filled(*, refresh: int | None = None, **others: Any) -> str:
    """The HTML of a whole page with these variables, which `values` prepares."""
    return _template("lab.html.j2", **values(**others) | {"refresh": refresh})


def _template(name: str, **others: Any) -> str:
    """The HTML of the template with this file name, filled with these variables."""
    return environment(TEMPLATES).get_template(name).render(language=language.current(), **others)


def facts(device: str, seed: int, seconds: float) -> list[tuple[str, str]]:
    """The facts of a run as pairs of a name and a value: device, threads, torch, seed, seconds."""
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
