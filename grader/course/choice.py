"""Finds the steps that a person means by what they type: `4`, `step04`, a name, `1-6,13`, or a whole track.

Only folder names are read. The message of `UnknownChoice` is one sentence that lists what there is instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.paths import SOLUTIONS, step_folders

CORE = "core"  # the required track; all others are electives
NUMBER = re.compile(r"(?:step)?0*(\d{1,2})")
Sources = Mapping[str, tuple[str, str]]  # by module name: the file's name in messages and its source


class UnknownChoice(ValueError):
    """No step or track has this name: one sentence, and the option with a valid value."""

    def __init__(self, sentence: str, option: str, instead: str) -> None:
        super().__init__(sentence)
        self.option, self.instead = option, instead


def step_names(solutions: Path | None = None, *tracks: str) -> list[str]:
    """The names of all steps, or of those in the `tracks`, in order, without importing any."""
    folders = step_folders(solutions or SOLUTIONS)
    return [folder.name for folder in folders if not tracks or folder.parent.name in tracks]


def track_names(solutions: Path | None = None) -> list[str]:
    """The names of all tracks, in the order of their steps."""
    return list(dict.fromkeys(folder.parent.name for folder in step_folders(solutions or SOLUTIONS)))


def chosen(steps: Iterable[str] = (), tracks: Iterable[str] = (), solutions: Path | None = None) -> list[str]:
    """The names of the steps that these texts (`4`, `1-6,13`, a name) and tracks mean, in order, each once; empty
    without any. Raises UnknownChoice."""
    there = track_names(solutions)
    names = step_names(solutions)
    wanted: set[str] = set()
    for track in tracks:
        if track not in there:
            raise UnknownChoice(
                _("There is no track {wanted}. The tracks are {known}.").format(wanted=track, known=", ".join(there)),
                "--track",
                _closest(track, there) or CORE,
            )
        wanted.update(step_names(solutions, track))
    for text in steps:
        for part in text.split(","):
            wanted.update(_in_range(part.strip(), names))
    return [name for name in names if name in wanted]


def or_core(chosen: Iterable[str]) -> list[str]:
    """The chosen steps; the core if none were chosen, as a class has a fixed number of points."""
    return list(chosen) or step_names(None, CORE)


def single(wanted: str, solutions: Path | None = None) -> str:
    """The name of the one step that a text such as `4` means. Raises UnknownChoice, also if it means several."""
    steps = chosen([wanted], solutions=solutions)
    if len(steps) > 1:
        sentence = _("Only one step fits here, and {wanted} stands for {count}.")
        raise UnknownChoice(sentence.format(wanted=wanted, count=len(steps)), "--step", steps[0])
    return steps[0]


def match_step(wanted: str, names: list[str]) -> str | None:
    """The step meant by a name, a number (`4`, `step04`) or a part of one name; None when none or several match."""
    matches = _matches(wanted, names)
    return matches[0] if len(matches) == 1 else None


def numbers(steps: Sequence[str]) -> str:
    """The numbers of some steps, in order: `1-3, 6`."""
    runs: list[list[int]] = []
    for number in sorted(int(name[4:6]) for name in steps):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def by_default(sources: Sources, problems: Mapping[str, str], solutions: Path | None = None) -> list[str]:
    """The names of the steps of a submission that are graded if none is chosen: the core, and every elective with work.

    `sources` are its readable files, `problems` the steps with an unusable one and what is wrong, `solutions` the
    folder of the tracks. An untouched stub is no work, an unusable file is. A damaged notebook, which may be the answer
    to any step, makes no elective count.
    """
    from grader.course.stubs import is_untouched  # the command line parses choices before it loads anything else

    return [
        name
        for name in started(sources, problems, solutions)
        if name in step_names(solutions, CORE) or name in problems or not is_untouched(sources[name][1])
    ]


def started(sources: Sources, problems: Mapping[str, str], solutions: Path | None = None) -> list[str]:
    """The names of the steps that a learner has started: the core, and every elective with a file, be it a stub; the
    arguments are those of `by_default`."""
    core, names = step_names(solutions, CORE), step_names(solutions)
    of_no_step = {problems[name] for name in problems.keys() & set(core)}
    with_file = sources.keys() | {name for name, problem in problems.items() if problem not in of_no_step}
    return [name for name in names if name in core or name in with_file] if core else names


def _in_range(part: str, names: list[str]) -> list[str]:
    """The names of the steps that `4`, a name, or `1-6` means. Raises UnknownChoice."""
    first, dash, last = (word.strip() for word in part.partition("-"))
    if not (first and dash and last):
        return [_match(part, names)]
    start, end = names.index(_match(first, names)), names.index(_match(last, names))
    if start > end:
        sentence = _("{wanted} ends before it starts.").format(wanted=part)
        raise UnknownChoice(sentence, "--step", f"{last}-{first}")
    return names[start : end + 1]


def _match(wanted: str, names: list[str]) -> str:
    """The step meant by a name, a number or a part of one name. Raises UnknownChoice."""
    matches = _matches(wanted, names)
    if len(matches) == 1:
        return matches[0]
    first, last = (names[0], names[-1]) if names else ("", "")
    if matches:
        sentence = _("{wanted} fits several steps: {names}.")
        raise UnknownChoice(sentence.format(wanted=wanted, names=", ".join(matches)), "--step", matches[0])
    sentence = _("There is no step {wanted}. The steps are {first} to {last}.")
    raise UnknownChoice(
        sentence.format(wanted=wanted or "''", first=first, last=last), "--step", _closest(wanted, names)
    )


def _closest(wanted: str, names: list[str]) -> str:
    """The name that was probably meant, else the first; empty without names."""
    import difflib

    return next(iter(difflib.get_close_matches(wanted, names, 1) or names), "")


def _matches(wanted: str, names: list[str]) -> list[str]:
    """The names that fit a number (`4`, `step04`), a name, or else a part of names; empty without any."""
    if number := NUMBER.fullmatch(wanted):
        return [name for name in names if int(name[4:6]) == int(number[1])]
    return [name for name in names if name == wanted] or [name for name in names if wanted and wanted in name]
