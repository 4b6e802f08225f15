"""A lab in a notebook: `lab("flash", prediction)` runs it in the kernel and shows its figures and pictures."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from markupsafe import Markup, escape

from grader.base import language
from grader.base.errors import Refusal
from grader.base.language import gettext as _
from grader.course import answer_cells, submissions
from grader.labs import command, parts
from grader.labs import lab as labs
from grader.report import svg

NAMED = "answers"
COLOUR = re.compile(r"var\(--([\w-]+)\)")
# A notebook shows a drawing as an image, which knows no colours of the page: those of a light one.
COLOURS = {
    "page": "#ffffff", "text": "#1b1f24", "quiet": "#545d68", "line": "#ccd2d9",
    "series-1": "#0b62b0", "series-2": "#b8500b",
    "series-3": "#12784f", "series-4": "#8c2f9b", "series-5": "#7a5c00", "series-6": "#b3123f", "series-7": "#3b4a5a",
    "series-8": "#4d7c0f",
}  # fmt: skip


class ShownLab:
    """A lab that was run: shown as HTML if possible, else as text."""

    def __init__(self, outcome: labs.LabRun, spoken: str) -> None:
        """Shows the run in the language `spoken`."""
        self.outcome = outcome
        self._spoken = spoken

    def __repr__(self) -> str:
        with language.use(self._spoken):
            return "\n".join([*self._sentences(), *self.outcome.whose])

    def _repr_html_(self) -> str:
        """The result as HTML: sentences, pictures, tables."""
        module, results = self.outcome.lab.module, self.outcome.bench.results
        with language.use(self._spoken):
            shown = [
                Markup("<ul>"),
                *(Markup("<li>{}</li>").format(sentence) for sentence in self._sentences()),
                Markup("</ul>"),
            ]
            for plot in module.pictures(results):
                address = svg.standalone(COLOUR.sub(lambda match: COLOURS[match[1]], plot.svg))
                shown.append(Markup("<h4>{}</h4><img src='{}' alt='{}'>").format(plot.title, address, plot.alt))
            shown += [_table(table) for table in module.tables(results)]
            shown.append(Markup("<p>{}</p>").format(" ".join(self.outcome.whose)))
        return str(Markup("\n").join(shown))

    def _sentences(self) -> list[str]:
        """The prediction, the findings, whether it was right, and whether the run was stopped early, as sentences."""
        sentences: list[str] = self.outcome.lab.module.findings(self.outcome.bench.results)
        if self.outcome.prediction:
            sentences = [_("Your prediction: {prediction}").format(prediction=self.outcome.prediction), *sentences]
        if sentences and self.outcome.lesson.answers:
            sentences = [*sentences, *self.outcome.answered()]
        if self.outcome.stopped:
            sentences = [*sentences, _("It was stopped early: this is what was measured until then.")]
        return sentences or [_("Nothing was measured before it was stopped.")]


def _table(table: labs.Table) -> Markup:
    """A lab's table as HTML."""
    head = Markup("").join(Markup("<th>{}</th>").format(column) for column in table.columns)
    rows = (Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row) for row in table.rows)
    body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in rows)
    return Markup("<table><caption>{}</caption><tr>{}</tr>{}</table>").format(escape(table.title), head, body)


def lab(
    name: str, prediction: str = "", *, folder: str | Path | None = None, seconds: float | None = None, seed: int = 1,
    device: str = "cpu", text: str | None = None, model: Literal["mine", "kit"] | None = None, lang: str | None = None,
) -> ShownLab:  # fmt: skip
    """Runs a lab with the answers in `folder`, by default the working folder, else that of the assignment next to it.

    The answers run in the kernel itself, outside the sandbox. `prediction` is the number of an answer, or words;
    `model` says which code runs, `mine` or `kit`; `lang` is `en` or `ko`. Raises Refusal."""
    spoken = language.choose(lang)
    with language.use(spoken):
        chosen = {one.name: one for one in labs.labs()}.get(name)
        if chosen is None:
            raise Refusal(
                _("There is no lab {name}. There are: {known}.").format(
                    name=name, known=", ".join(one.name for one in labs.labs())
                )
            )
        answers = _copied_answers(Path(folder) if folder is not None else _answers_folder())
        try:
            command.require_matplotlib()
            code = parts.gather(chosen.module.NEEDS, answers, model, parts.grading(answers), device)
            with command.bar() as tell:
                bench = labs.Bench(code, seconds or chosen.module.SECONDS, seed, device, text, tell)
                predicted = labs.predicted(str(prediction), chosen.lesson)
                outcome = labs.run(chosen, bench, predicted, parts.blamed_on(answers))
        except parts.Stop as stop:
            raise Refusal(str(stop)) from None
        return ShownLab(outcome, spoken)


def _answers_folder() -> Path:
    """The folder with answers: the working folder if it has any, else the assignment's next to it."""
    here = Path.cwd()
    beside = here.parent / answer_cells.ASSIGNMENT
    return here if submissions.read(here).sources or not beside.is_dir() else beside


def _copied_answers(folder: Path) -> Path:
    """The answers of a folder, those of its notebooks too, as importable `.py` files in this process's one temporary
    folder, in place of those of the last call; removed at exit. Raises Refusal if there is no such folder."""
    try:
        read = submissions.read(folder)
    except submissions.NoSubmission:
        raise Refusal(_("There is no folder {folder}.").format(folder=folder)) from None
    copies = Path(_scratch().name) / NAMED
    copies.mkdir(exist_ok=True)
    for old in copies.glob("*.py"):
        old.unlink()
    for step, (_file, source) in read.sources.items():
        (copies / f"{step}.py").write_text(source, encoding="utf-8")
    return copies


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder, removed when the kernel ends."""
    return tempfile.TemporaryDirectory(prefix="lab-")
