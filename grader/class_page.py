"""A class as one HTML page that needs nothing else: how it stands, and what to say to it tomorrow.

A pure function of the standings. The page's sentences stand here, its structure and looks in `templates/`. Whatever a
learner or a folder's name could have made is shown through `report.plain` and escaped.
"""

from __future__ import annotations

import ast
import inspect
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import quote

from markupsafe import Markup

from grader import language
from grader import report as reports
from grader.language import gettext as _
from grader.page import coded, environment
from grader.places import SOLUTIONS
from grader.results import Status
from grader.standings import Standing, StepStanding

BINS = 10  # of the distribution
SHOWN = 12  # findings in full at most; the others are folded, as are those of one student only
STATUSES: tuple[Status, ...] = ("pass", "fail", "timeout", "skipped", "todo", "error")


@dataclass(frozen=True)
class Wording:
    """What a misconception says: what was done, why it is wrong, and a question that helps."""

    what: str
    why: str
    nudge: str


@dataclass
class Finding:
    """Something that several students share: in which step, what it is, who."""

    step: str
    wordings: list[Wording]
    students: list[Standing] = field(default_factory=list)


@dataclass
class Column:
    """One step of the class: how many passed it, and the share of its points that were given."""

    step: StepStanding
    passed: int
    begun: int
    total: int
    share: float
    common: str


@dataclass(frozen=True)
class Bin:
    """A part of the range of scores, in percent, both ends included, and how many students lie in it."""

    low: int
    high: int
    count: int
    width: float


@dataclass(frozen=True)
class Concern:
    """Why somebody should look at a student's work."""

    standing: Standing
    reasons: list[str]


def html(standings: Sequence[Standing], *, seed: int, submissions: str) -> str:
    """The whole page, in the language in use. Links to `pages/` beside it."""
    graded = [standing for standing in standings if standing.score is not None]
    common = findings(graded)
    shown = min(SHOWN, sum(len(finding.students) > 1 for finding in common) or len(common))
    return environment().get_template("class.html.j2").render(
        language=language.current(), words=_words(), facts=_facts(standings, graded, seed),
        sentences=_sentences(graded, common),
        again=_("The same run again: {command}").format(
            command=f"python -m grader class {submissions} --seed {seed} --again"
        ),
        common=common[:shown], others=common[shown:], unexplained=unexplained(graded), columns=columns(graded),
        bins=bins(graded), concerns=concerns(standings), standings=_by_score(standings), graded=graded,
        number=reports.number, coded=coded, link=_link, STATUSES=STATUSES,
        marks={status: mark for status, (mark, _style) in reports.MARKS.items()}, status_word=reports.status_word,
        of=_of, of_students=_of_students, percent=_percent, short=_short, points=_points,
    )  # fmt: skip


def findings(graded: Sequence[Standing]) -> list[Finding]:
    """The misconceptions of the class, the most common first, then by step."""
    found: dict[tuple[str, tuple[str, ...]], Finding] = {}
    for standing in graded:
        for step in standing.steps:
            for names in step.diagnoses:
                known = _wordings(step.name, language.current())
                wordings = [known.get(name, Wording(name, "", "")) for name in names]
                found.setdefault((step.name, names), Finding(step.name, wordings)).students.append(standing)
    return _most_common(found.values())


def unexplained(graded: Sequence[Standing]) -> list[Finding]:
    """The first failing check of steps that have no diagnosis, the most common first."""
    found: dict[tuple[str, str], Finding] = {}
    for standing in graded:
        for step in standing.steps:
            for title in step.unexplained:
                finding = found.setdefault((step.name, title), Finding(step.name, [Wording(title, "", "")]))
                finding.students.append(standing)
    return _most_common(found.values())


def _most_common(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: (-len(finding.students), finding.step))


def columns(graded: Sequence[Standing]) -> list[Column]:
    """The steps of the class."""
    found = []
    for steps in zip(*(standing.steps for standing in graded), strict=True):
        problems = Counter(names for step in steps for names in step.diagnoses)
        common = (
            _wordings(steps[0].name, language.current()).get(problems.most_common(1)[0][0][0]) if problems else None
        )
        possible = sum(step.max_score for step in steps)
        found.append(
            Column(
                step=steps[0],
                passed=sum(step.status == "pass" for step in steps),
                begun=sum(step.status != "todo" for step in steps),
                total=len(steps),
                share=sum(step.score for step in steps) / possible if possible else 0.0,
                common=common.what if common else "",
            )
        )
    return found


def bins(graded: Sequence[Standing]) -> list[Bin]:
    """How the scores are spread, from the highest to the lowest; full marks have a line of their own."""
    shares = [int(100 * standing.score / standing.max_score) for standing in graded if standing.max_score]  # type: ignore[operator]  # graded: there is a score
    ranges = [(100, 100), *((low, low + 9) for low in range(90, -1, -10))]
    counts = [sum(low <= share <= high for share in shares) for low, high in ranges]
    most = max(counts, default=0) or 1
    return [Bin(low, high, count, 100 * count / most) for (low, high), count in zip(ranges, counts, strict=True)]


def concerns(standings: Sequence[Standing]) -> list[Concern]:
    """The students whose work a person should look at, and why."""
    found = [Concern(standing, _reasons(standing)) for standing in standings]
    return [concern for concern in found if concern.reasons]


def _reasons(standing: Standing) -> list[str]:
    if standing.score is None:
        return [_("Could not be graded, and has no score: {reason}").format(reason=standing.error)]
    if standing.nothing_handed_in:
        return [_("Handed nothing in, or files of other names.")]
    said: dict[str, list[str]] = {
        _("A built-in that is off limits was used: {steps}"): [step.name for step in standing.steps if step.off_limits],
        _("The code did not end in time: {steps}"): [step.name for step in standing.steps if step.status == "timeout"],
        _("The grader itself failed, and no points were taken for it: {steps}"): [
            step.name for step in standing.steps if step.status == "error"
        ],
    }
    reasons = [sentence.format(steps=", ".join(steps)) for sentence, steps in said.items() if steps]
    if unusable := dict.fromkeys(step.unusable for step in standing.steps if step.unusable):
        said_of_files = _("What was handed in can't be used as it is: {reason}")
        reasons.insert(0, said_of_files.format(reason=" ".join(unusable)))
    return reasons


def _by_score(standings: Sequence[Standing]) -> list[Standing]:
    """Those without a score first, then the highest first."""
    return sorted(standings, key=lambda one: (one.score is not None, -(one.score or 0.0), one.student))


@cache
def _wordings(step: str, _language: str) -> dict[str, Wording]:
    """What the misconceptions of a step say, read without importing them: that would load torch."""
    file = SOLUTIONS / step / "misconceptions.py"
    if not file.is_file():
        return {}
    found = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
            paragraphs = [language.gettext(" ".join(part.split())) for part in inspect.cleandoc(text).split("\n\n")]
            if len(paragraphs) == 3:
                found[node.name] = Wording(*paragraphs)
    return found


def _facts(standings: Sequence[Standing], graded: Sequence[Standing], seed: int) -> list[tuple[str, str]]:
    scores = [standing.score for standing in graded if standing.score is not None]
    full = sum(standing.score == standing.max_score for standing in graded)
    total = reports.number(graded[0].max_score) if graded else "0"
    facts = [(_("students"), str(len(standings)))]
    if scores:
        facts += [
            (_("median"), _points(statistics.median(scores), total)),
            (_("mean"), _points(statistics.fmean(scores), total)),
            (_("full marks"), str(full)),
        ]
    failed = len(standings) - len(graded)
    return [*facts, (_("not graded"), str(failed)), (_("seed"), str(seed))]


def _sentences(graded: Sequence[Standing], common: Sequence[Finding]) -> list[str]:
    """What to know first: the commonest mistake, and the step at which most stop."""
    said = []
    if common and len(common[0].students) > 1:
        said.append(
            _("The most common mistake is in {step}, of {count} of {total} students: “{what}”").format(
                step=common[0].step, count=len(common[0].students), total=len(graded), what=common[0].wordings[0].what
            )
        )
    stops = Counter(
        next((step.name for step in standing.steps if step.status not in ("pass", "error")), "")
        for standing in graded
        if not standing.nothing_handed_in
    )
    stops.pop("", None)
    if stops:
        step, count = stops.most_common(1)[0]
        said.append(
            _("More students stop at {step} than at any other step: {count} of {total}.").format(
                step=step, count=count, total=len(graded)
            )
        )  # fmt: skip
    return said


def _of(part: int, whole: int) -> str:
    return _("{part} of {whole}").format(part=part, whole=whole)


def _of_students(part: int, whole: int) -> str:
    return _("{part} of {whole} students").format(part=part, whole=whole)


def _points(score: float, total: str) -> str:
    return f"{reports.number(score)} / {total}"


def _percent(part: float, whole: float = 1.0) -> str:
    return f"{100 * part / whole if whole else 0:.0f} %"


def _short(step: str) -> tuple[str, Markup]:
    """`step04_causal_mask` as its number and its name, which may be broken after a space."""
    number, _sep, name = step.removeprefix("step").partition("_")
    return str(int(number)), Markup("<wbr>").join(f"{part} " for part in name.split("_"))


def _link(standing: Standing) -> str:
    return f"pages/{quote(standing.file, safe='')}.html"


def _words() -> dict[str, str]:
    return {
        "title": _("Attention from scratch: the class"),
        "skip": _("Skip to the results"),
        "facts": _("About this run"),
        "tomorrow": _("What to say tomorrow"),
        "tomorrow_what": _("The mistakes of the class, the most common first."),
        "none": _("No mistake was recognised."),
        "one_of": _("One of these was done:"),
        "ask": _("Ask:"),
        "who": _("who"),
        "more": _("Less common ones"),
        "unexplained": _("Wrong, and not recognised"),
        "unexplained_what": _("The first check that fails in steps where no known mistake gives the same answers."),
        "look": _("Students whose work needs a look"),
        "nobody": _("Nobody."),
        "steps": _("Steps"),
        "step": _("step"),
        "passed": _("passed"),
        "begun": _("begun"),
        "points": _("points"),
        "common": _("most common mistake"),
        "spread": _("How the scores are spread"),
        "percent": _("percent of the points"),
        "students": _("students"),
        "student": _("student"),
        "grid": _("Students and steps"),
        "grid_what": _("The highest score first. A number is the points; a name leads to the student's page."),
        "score": _("score"),
        "not_graded": _("not graded"),
        "top": _("Back to the top"),
    }
