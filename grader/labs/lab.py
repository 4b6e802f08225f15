"""Labs: experiments without a mark, with the learner's own code. `python -m grader lab flash`.

A lab is a folder `solutions/TRACK/lab_NAME/` with its lesson in both languages and `lab.py`, which has

    SECONDS    how long it takes by default, on two CPU cores
    NEEDS      the steps that it uses, each a `Need`
    measure    fills a `Bench`'s results, within its time
    tables     results -> what is printed and is on the page
    pictures   results -> SVG, for the page
    findings   results -> sentences that say what was measured
    judged     results -> which answer they bear out, and which points of the lesson

The lesson's sections under `##` are, in order: the question with its numbered answers, and what to see.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from grader.base import language, paths
from grader.base.language import gettext as _
from grader.labs.judged import LabVerdict, points
from grader.labs.parts import Need, StepCode, Stop

LONGER = 2.5  # times the usual time: enough on a slow machine
LAB_NAME = re.compile(r"lab_([a-z0-9_]+)")
HEADING = re.compile(r"^## .*$", re.MULTILINE)
SHOWN_EVERY = 6.0  # seconds from one page to the next while a lab runs
ANSWER = re.compile(r"^(\d)\. (.+(?:\n   .+)*)", re.MULTILINE)


@dataclass(frozen=True)
class Table:
    """Figures: rows of text under headings."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def is_figure(self, column: int) -> bool:
        """Whether a column (from 0) holds numbers, which are right-aligned."""
        texts = [row[column] for row in self.rows if row[column]]
        return bool(texts) and all(text[0].isdigit() or text[0] in "-+−×" for text in texts)


@dataclass(frozen=True)
class Plot:
    """A drawing as SVG; `alt` says in words what it shows."""

    title: str
    svg: str
    alt: str


@dataclass
class Results:
    """The measurements of a lab: rows of figures, and whatever else its pictures need."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def add(self, **figures: Any) -> None:
        """Adds a row of figures, by their names."""
        self.rows.append(figures)

    def where(self, **wanted: Any) -> list[dict[str, Any]]:
        """The rows that have these values, in the order of measurement."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in wanted.items())]

    def distinct(self, name: str) -> list[Any]:
        """The values of one figure, in the order in which they were first measured."""
        return list(dict.fromkeys(row[name] for row in self.rows if name in row))


class Bench:
    """A lab's surroundings: the parts that it needs, its time, and its results."""

    def __init__(
        self, parts: dict[str, StepCode], seconds: float, seed: int = 1, device: str = "cpu", text: str | None = None,
        tell: Callable[[float, str], None] = lambda done, what: None,
    ) -> None:  # fmt: skip
        """`parts` is the code of each needed step, by step; `seconds` is the time for the lab, which starts now; `text`
        is the learner's own; `tell` is called with the part that is done, 0 to 1, and a sentence."""
        self.parts, self.seconds, self.seed, self.device, self.text = parts, seconds, seed, device, text
        self.results = Results()
        self._tell, self._began = tell, time.monotonic()
        self.watched_by: Callable[[], None] | None = None
        self._shown = self._began

    @property
    def elapsed(self) -> float:
        """Seconds since it started."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds left of the lab's time; negative once it is over."""
        return self.seconds - self.elapsed

    def begin(self) -> None:
        """Restarts the clock, after a set-up that is not measured."""
        self._began = time.monotonic()

    def part(self, step: str) -> StepCode:
        """The code of a step that the lab needs. Raises KeyError for another."""
        return self.parts[step]

    def is_over(self, step: int, least: int) -> bool:
        """Whether the lab's time is over after `step` steps; never before `least` steps, which every machine gets
        however slow it is."""
        return step >= least and self.left <= 0

    def done(self, step: int, most: int, least: int) -> float:
        """The fraction of a training that is done, 0 to 1: of its `most` steps, or of its time once `least` steps were
        taken."""
        return max(step / most, min(self.elapsed / self.seconds, step / least))

    def tell(self, what: str, done: float | None = None) -> None:
        """Shows a sentence in the progress bar; `done` is the fraction of the work, 0 to 1, by default of the time. Now
        and then it also has the page written with what is measured so far; that does not count as the lab's time."""
        self._tell(min(1.0, self.elapsed / self.seconds if done is None else done), what)
        if self.watched_by and self.results.rows and time.monotonic() - self._shown > SHOWN_EVERY:
            began = time.monotonic()
            self.watched_by()
            self._shown = time.monotonic()
            self._began += self._shown - began  # drawing is not part of what is measured


class Module(Protocol):
    """The module `lab.py` of a lab."""

    SECONDS: float
    NEEDS: tuple[Need, ...]

    def measure(self, bench: Bench) -> None:
        """Fills the bench's results, within its time."""

    def tables(self, results: Results) -> list[Table]:
        """The tables to print, and to show on the page."""

    def pictures(self, results: Results) -> list[Plot]:
        """The drawings for the page."""

    def findings(self, results: Results) -> list[str]:
        """Sentences that say what was measured."""

    def judged(self, results: Results) -> LabVerdict:
        """The answer that the results bear out, and which points of the lesson they show."""


@dataclass(frozen=True)
class LabLesson:
    """The text of a lab in one language, as Markdown, cut where the runner needs it."""

    title: str
    about: str
    question: str
    answers: list[str]
    to_see: str


@dataclass(frozen=True)
class Lab:
    """One lab, read from its folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The lab's name, as `flash`: its folder's without `lab_`."""
        return self.folder.name.removeprefix("lab_")

    @property
    def module(self) -> Any:
        """The lab's code, imported lazily: a `Module`."""
        package = f"{self.folder.parents[1].name}.{self.folder.parent.name}.{self.folder.name}"
        return importlib.import_module(f"{package}.lab")

    @property
    def steps(self) -> list[int]:
        """The numbers of the steps that it uses."""
        return sorted({int(need.step[4:6]) for need in self.module.NEEDS if not need.optional and not need.graded_only})

    @property
    def lesson(self) -> LabLesson:
        """The lab's text in the language in use. Raises OSError without such a file."""
        return cut(self.folder.joinpath(f"lesson.{language.current()}.md").read_text(encoding="utf-8"))


def labs(solutions: Path = paths.SOLUTIONS) -> list[Lab]:
    """Every lab of every track, in the order of their names. A folder without `lab.py` does not count."""
    folders = [path.parent for path in solutions.glob("*/lab_*/lab.py") if LAB_NAME.fullmatch(path.parent.name)]
    return [Lab(folder) for folder in sorted(folders, key=lambda folder: folder.name)]


def cut(markdown: str) -> LabLesson:
    """A lab's lesson in its parts, from its Markdown. Raises ValueError if a part is missing."""
    head, *sections = HEADING.split(markdown)
    title, _line, about = head.strip().partition("\n")
    if not title.startswith("# ") or len(sections) < 2:
        raise ValueError("a lab's lesson has a title, a paragraph, a question, and what to see")
    answers = [" ".join(answer.split()) for _number, answer in ANSWER.findall(sections[0])]
    question = ANSWER.split(sections[0])[0].strip()
    return LabLesson(title[2:], about.strip(), question, answers, sections[1].strip())


def predicted(answer: str, lesson: LabLesson) -> str:
    """A learner's prediction as typed: one of the numbered answers, or words of their own. Raises Stop if no answer has
    that number."""
    answer = answer.strip()
    if not answer.isdecimal():
        return answer
    if not 1 <= int(answer) <= len(lesson.answers):
        sentence = _("There is no answer {number}. Type a number from 1 to {last}, or words: PREDICT=1")
        raise Stop(sentence.format(number=answer, last=len(lesson.answers)))
    return lesson.answers[int(answer) - 1]


@dataclass
class LabRun:
    """A lab that was run: all that its page shows."""

    lab: Lab
    lesson: LabLesson
    bench: Bench
    prediction: str = ""
    stopped: bool = False

    @property
    def whose(self) -> list[str]:
        """A sentence for each step that says if the learner's code ran or the kit's."""
        return [part.said for part in self.bench.parts.values()]

    @property
    def judged(self) -> LabVerdict:
        """The conclusions from the figures so far; an empty one without figures."""
        results = self.bench.results
        return self.lab.module.judged(results) if results.rows else LabVerdict()

    @property
    def longer(self) -> str:
        """The command line of a run that is long enough."""
        return f"make lab NAME={self.lab.name} SECONDS={self.lab.module.SECONDS * LONGER:.0f}"

    def answered(self) -> list[str]:
        """Sentences that say if the prediction was right, and why."""
        judged = self.judged
        if not judged.answer:
            sentence = _("This run does not tell which answer is right. Long enough: {command}")
            return [sentence.format(command=self.longer)]
        measured = self.lesson.answers[judged.answer - 1]
        if self.prediction not in self.lesson.answers:
            return [_("Measured: {answer}").format(answer=measured), judged.because]
        if self.prediction == measured:
            return [_("Your prediction was right."), judged.because]
        return [_("It was otherwise. Measured: {answer}").format(answer=measured), judged.because]

    def to_see(self) -> tuple[str, str]:
        """The points to see in this run, as Markdown; and a sentence on those that it does not show, empty if there are
        none."""
        text, left_out = points(self.lesson.to_see, self.judged.shows)
        if not left_out:
            return text, ""
        sentence = _("Points of this lab that do not show in this run: {count}. A longer run: {command}")
        return text, sentence.format(count=left_out, command=self.longer)


def run(
    lab: Lab,
    bench: Bench,
    prediction: str = "",
    guard: contextlib.AbstractContextManager[None] | None = None,
    watch: Callable[[LabRun], None] | None = None,
) -> LabRun:
    """Runs a lab's measurements and returns them; those made before Ctrl-C are kept. `guard` is a context that turns an
    error of the learner's code into a Stop. `watch` is called with the run now and then, with what is measured so
    far."""
    outcome = LabRun(lab, lab.lesson, bench, prediction)
    if watch is not None:
        bench.watched_by = lambda: watch(outcome)
    with guard or contextlib.nullcontext():
        try:
            lab.module.measure(bench)
        except KeyboardInterrupt:
            outcome.stopped = True
    return outcome
