"""A class as one self-contained HTML page: its results, and the mistakes to talk about next.

A pure function of the standings. The page's sentences are here, its structure and looks in `templates/`. Whatever a
learner or a folder's name could have made is shown through `report.plain` and escaped.
"""

from __future__ import annotations

import contextlib
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from grader.base import language
from grader.base import mistakes as documents
from grader.base.language import gettext as _
from grader.base.paths import step_folder
from grader.base.results import Status
from grader.feedback.concerns import concerns
from grader.feedback.standings import Standing, StepStanding
from grader.operators.changes import WORDS
from grader.operators.probes import PROBES
from grader.report import layers
from grader.report import terminal as reports
from grader.report.page import environment, template_values

SHOWN = 12  # findings in full at most; the others are folded, as are those of one student only
STATUSES: tuple[Status, ...] = ("pass", "fail", "timeout", "skipped", "todo", "error")

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Wording:
    """The text of a misconception: what was done, why it is wrong, and a question that helps."""

    what: str
    why: str
    nudge: str


@dataclass
class CommonMistake:
    """A mistake that several students share: its step, its text, the students."""

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


def html(standings: Sequence[Standing], *, seed: int, submissions: str, nobodys: Sequence[str] = ()) -> str:
    """The whole page as HTML, in the language in use; it links to `pages/` next to it. `seed`: of this run;
    `submissions`: the arguments that grade the class again; `nobodys`: files that belong to no student."""
    graded = [standing for standing in standings if standing.score is not None]
    common = findings(graded)
    seeds = _seeds(standings, seed)
    shown = min(SHOWN, sum(len(finding.students) > 1 for finding in common) or len(common))
    return environment(TEMPLATES).get_template("class.html.j2").render(
        **template_values(), facts=_facts(standings, graded), seeds=", ".join(map(str, seeds)),
        sentences=_sentences(graded, common), missing_layers=_missing_layers(graded),
        again=_repeat_lines(seeds, f"python -m grader class {submissions}"),
        common=common[:shown], others=common[shown:], unexplained=unexplained(graded), columns=columns(graded),
        tracks=_tracks(graded), labs=labs(standings), bins=bins(graded), concerns=concerns(standings),
        nobodys=nobodys, changed=_changed(standings), imports=imports(standings),
        filters=_filters(standings), kinds=_kinds,
        standings=_by_score(standings), graded=graded,
        link=_link, STATUSES=STATUSES,
        of=_of, of_students=of_students, percent=percent, short=_short, points=_points,
    )  # fmt: skip


def _seeds(standings: Sequence[Standing], seed: int) -> dict[int, list[str]]:
    """The names of the students graded under each seed, the most common seed first; only `seed`, without names, if none
    was. What was changed since a complete run, or was open and is tried again, is graded under a new seed."""
    used: dict[int, list[str]] = {}
    for standing in standings:
        if standing.seed is not None:
            used.setdefault(standing.seed, []).append(standing.student)
    return dict(sorted(used.items(), key=lambda item: -len(item[1]))) or {seed: []}


def _repeat_lines(seeds: dict[int, list[str]], command: str) -> list[str]:
    """Lines with the commands that repeat the run: for all students under the first seed, then for those with
    another."""
    first, *others = seeds
    lines = [_("The same run again: {command}", command=f"{command} --seed {first} --again")]
    for seed in others:
        whom = " ".join(f"--student {shlex.quote(name)}" for name in seeds[seed])
        sentence = _("Then, for {students}: {command}")
        lines.append(sentence.format(students=", ".join(seeds[seed]), command=f"{command} --seed {seed} {whom}"))
    return lines


def _changed(standings: Sequence[Standing]) -> list[Standing]:
    """The students with marks that this run changed; empty in a first run, in which all are new."""
    changed = [one for one in standings if one.changed]
    return changed if len(changed) < len(standings) else []


def _sections(standings: Sequence[Standing]) -> list[str]:
    """The names of the sections that have a student, sorted."""
    return sorted({one.section for one in standings if one.section})


def _filters(standings: Sequence[Standing]) -> list[tuple[str, str, int]]:
    """The filters of the table of students: the CSS class of their rows, a word for it, and the number of rows."""
    sections = [(f"section-{index}", name) for index, name in enumerate(_sections(standings))]
    named = [("open", _("open")), ("late", _("late")), ("changed", _("changed in this run")), *sections]
    every = [kind for one in standings for kind in _kinds(one, standings)]
    return [(kind, word, every.count(kind)) for kind, word in named if every.count(kind)]


def _kinds(one: Standing, standings: Sequence[Standing]) -> list[str]:
    """The CSS classes of a student's row, one for each filter that shows it; empty for most."""
    kinds = ["open"] * one.is_open + ["late"] * bool(one.late or one.lateness) + ["changed"] * bool(one.changed)
    return kinds + ([f"section-{_sections(standings).index(one.section)}"] if one.section else [])


def imports(standings: Sequence[Standing], *, own: bool = False) -> list[tuple[str, str]]:
    """The file name of each table that a platform imports, and a line that says how. First, and for `own` alone, those
    of the platform that the class came from."""
    lines = [
        (any(one.canvas_id for one in standings), "canvas.csv", _("Canvas: Grades, then Import")),
        (any(one.moodle_id for one in standings), "moodle.csv", _(
            "Moodle: the assignment, View all submissions, Upload grading worksheet; with “Allow updating records” "
            "ticked if there are grades already")),
        (any("@" in one.login for one in standings), "class.csv", _(
            "Gradescope and others: no import of scores from a file; Gradescope takes them from its own autograder")),
        (False, "marks.csv", _("for your own records, and for a gradebook that takes any table")),
    ]  # fmt: skip
    return [(table, where) for is_own, table, where in sorted(lines, key=lambda line: not line[0]) if is_own or not own]


def findings(graded: Sequence[Standing]) -> list[CommonMistake]:
    """The misconceptions of the class, the most common first, then by step."""
    common: dict[tuple[str, tuple[str, ...], str], CommonMistake] = {}
    for standing in graded:
        for step in standing.steps:
            for names in step.diagnoses:
                mistake = CommonMistake(step.name, wordings_of(step.name, names, step.words))
                common.setdefault((step.name, names, mistake.wordings[0].what), mistake).students.append(standing)
    return _most_common(common.values())


def unexplained(graded: Sequence[Standing]) -> list[CommonMistake]:
    """The first failing check, by its title, of steps that have no diagnosis, with the students; the most common
    first."""
    common: dict[tuple[str, str], CommonMistake] = {}
    for standing in graded:
        for step in standing.steps:
            for title in step.unexplained:
                finding = common.setdefault((step.name, title), CommonMistake(step.name, [Wording(title, "", "")]))
                finding.students.append(standing)
    return _most_common(common.values())


def _most_common(mistakes: Iterable[CommonMistake]) -> list[CommonMistake]:
    return sorted(mistakes, key=lambda finding: (-len(finding.students), finding.step))


def columns(graded: Sequence[Standing]) -> list[Column]:
    """For each step: how many students started and passed it, the share of its points, the most common mistake."""
    found = []
    for steps in zip(*(standing.steps for standing in graded), strict=True):
        problems = Counter(
            _either(wordings_of(step.name, names, step.words)) for step in steps for names in step.diagnoses
        )
        most = max(problems.values(), default=0)
        common = [what for what in sorted(problems) if problems[what] == most]
        possible = sum(step.max_score for step in steps if step.score is not None)
        found.append(
            Column(
                step=steps[0],
                passed=sum(step.status == "pass" for step in steps),
                begun=sum(step.status != "todo" for step in steps),
                total=len(steps),
                share=sum(step.score or 0.0 for step in steps) / possible if possible else 0.0,
                common=common[0]
                if len(common) == 1
                else _("{count} equally common", count=len(common))
                if common
                else "",
            )
        )
    return found


def _tracks(graded: Sequence[Standing]) -> list[str]:
    """The names of the tracks of the class; empty if there is only one: its points are the total."""
    names = graded[0].by_track if graded else {}
    return list(names) if len(names) > 1 else []


def labs(standings: Sequence[Standing]) -> list[tuple[str, int]]:
    """Each lab that a student's own list names, with how many name it, the most common first."""
    return Counter(name for standing in standings for name in standing.labs).most_common()


def bins(graded: Sequence[Standing]) -> list[Bin]:
    """The distribution of the scores, from the highest to the lowest; full marks have a line of their own."""
    shares = [min(100, int(100 * standing.score / standing.max_score)) for standing in graded if standing.max_score]  # type: ignore[operator]  # graded: there is a score
    ranges = [(100, 100), *((low, low + 9) for low in range(90, -1, -10))]
    counts = [sum(low <= share <= high for share in shares) for low, high in ranges]
    most = max(counts, default=0) or 1
    return [Bin(low, high, count, 100 * count / most) for (low, high), count in zip(ranges, counts, strict=True)]


def _by_score(standings: Sequence[Standing]) -> list[Standing]:
    """The students, those without a score first, then by score, the highest first."""
    return sorted(
        standings, key=lambda standing: (standing.score is not None, -(standing.score or 0.0), standing.student)
    )


def wordings_of(step: str, names: Iterable[str], words: Mapping[str, Mapping[str, str]]) -> list[Wording]:
    """The texts of these misconceptions of a step, in the language in use; `words` complete the texts, by the name of
    the misconception and the place in its text."""
    every, wordings = _texts(step), []
    for name in names:
        lines = every.get(name, (name, "", ""))
        missing = dict.fromkeys(WORDS, "…") if "{function}" in lines[0] else {}  # in a report of an earlier version
        wordings.append(Wording(*(language.gettext(line, **words.get(name, missing)) for line in lines)))
    return wordings


@cache
def _texts(step: str) -> dict[str, tuple[str, str, str]]:
    """The texts of a step's misconceptions in English, by name: what was done, why it is wrong, and a question. Read
    without importing them, which would load torch."""
    texts = PROBES | {name: entry.said for name, entry in documents.of_many_steps().entries.items()}
    with contextlib.suppress(FileNotFoundError):
        folder = step_folder(step)
        texts |= documents.texts(folder, documents.read(folder))
    return texts


def _facts(standings: Sequence[Standing], graded: Sequence[Standing]) -> list[tuple[str, str]]:
    """The rows of the table at the top: numbers of students, median, mean, full marks."""
    scores = [standing.score for standing in graded if standing.score is not None]
    full = sum((standing.score or 0.0) >= standing.max_score for standing in graded)
    total = reports.number(graded[0].max_score) if graded else "0"
    facts = [(_("students"), str(len(standings)))]
    if scores:
        facts += [
            (_("median"), _points(statistics.median(scores), total)),
            (_("mean"), _points(statistics.fmean(scores), total)),
            (_("full marks"), str(full)),
        ]
    for section in _sections(standings):
        own = [one.score for one in graded if one.section == section and one.score is not None]
        median = _points(statistics.median(own), total) if own else "–"
        facts.append((_("median of {section}", section=section), median))
    failed = len(standings) - len(graded)
    return [*facts, (_("not graded"), str(failed))]


def _sentences(graded: Sequence[Standing], common: Sequence[CommonMistake]) -> list[str]:
    """The sentences to read first, if there is something to say: on the commonest mistakes, and on the step at which
    most students stop."""
    return [*_commonest(graded, common), *_first_failing(graded)]


def _missing_layers(graded: Sequence[Standing]) -> list[str]:
    """A sentence for each layer of isolation that was missing for some students, on what that means."""
    in_force = [set(report.isolation) for report in graded if report.isolation]
    return layers.missing(set.intersection(*in_force)) if in_force else []


def _commonest(graded: Sequence[Standing], common: Sequence[CommonMistake]) -> Iterator[str]:
    """A sentence on the mistake, or the mistakes, that most students made; nothing if one student made each."""
    count = len(common[0].students) if common else 0
    tied = [mistake for mistake in common if len(mistake.students) == count]
    if count < 2:
        return
    if len(tied) == 1:
        yield _("The most common mistake is in {step}, made by {count} of {total} students: “{what}”").format(
            step=tied[0].step, count=count, total=len(graded), what=_either(tied[0].wordings)
        )
    else:
        steps = ", ".join(dict.fromkeys(mistake.step for mistake in tied))
        yield _("{number} mistakes are equally common, each made by {count} of {total} students: in {steps}.").format(
            number=len(tied), count=count, total=len(graded), steps=steps
        )


def _first_failing(graded: Sequence[Standing]) -> Iterator[str]:
    """A sentence on the step that is most often a student's first that does not pass; nothing if it says too little."""
    first = Counter(
        next((step.name for step in standing.steps if step.status != "pass" and step.score is not None), "")
        for standing in graded
        if not standing.nothing_handed_in
    )
    first.pop("", None)
    most = max(first.values(), default=0)
    tied = [step for step in sorted(first) if first[step] == most]
    if len(tied) == 1:
        yield _("The first step that does not pass is most often {step}: for {count} of {total} students.").format(
            step=tied[0], count=most, total=len(graded)
        )
    elif most > 1:
        yield _(
            "The first step that does not pass is most often one of {steps}: for {count} of {total} students each."
        ).format(steps=", ".join(tied), count=most, total=len(graded))


def _either(wordings: Sequence[Wording]) -> str:
    """The texts of a diagnosis as one; of several possible mistakes joined by "or"."""
    return _(" or ").join(wording.what for wording in wordings)


def _of(part: int, whole: int) -> str:
    return _("{part} of {whole}", part=part, whole=whole)


def of_students(part: int, whole: int) -> str:
    return _("{part} of {whole} students", part=part, whole=whole)


def _points(score: float, total: str) -> str:
    return f"{reports.number(score)} / {total}"


def percent(part: float | None, whole: float = 1.0) -> str:
    """`part` of `whole` in percent, as text; a dash if `part` is None."""
    return "–" if part is None else f"{100 * part / whole if whole else 0:.0f} %"


def _short(step: str) -> tuple[str, Markup]:
    """`step04_causal_mask` as its number and its name, which may be broken after a space."""
    number, _sep, name = step.removeprefix("step").partition("_")
    return str(int(number)), Markup("<wbr>").join(f"{part} " for part in name.split("_"))


def _link(standing: Standing) -> str:
    return f"pages/{quote(standing.file, safe='')}.html"
