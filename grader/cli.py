"""The command line: arguments in, exit codes out; it decides nothing itself."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from grader import grading, language, submission
from grader.language import gettext as _

application = typer.Typer(help="Grade attention from scratch.", add_completion=False, pretty_exceptions_enable=False)


class Device(StrEnum):
    """Where checks run."""

    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"
    all = "all"


class Refusal(Exception):
    """Bad input: one line, which ends in the command to type next. Exit code 2."""


@application.callback()
def _commands() -> None:
    """Grade attention from scratch."""


@application.command()
def grade(
    submission_folder: Annotated[Path, typer.Option("--submission", help="A folder of step files.")] = Path(
        "exercises"
    ),
    step: Annotated[list[str] | None, typer.Option(help="Only this step (name or number); may be repeated.")] = None,
    device: Annotated[Device, typer.Option(help="Where the checks run.")] = Device.all,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Repeat a run with the same draws.")] = None,
    lang: Annotated[str | None, typer.Option(help="en or ko.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON; - for standard output.")] = None,
) -> None:
    """Grade a submission and say what to do next."""
    with language.use(_language(lang)):
        names = [_step_name(wanted) for wanted in step or []]
        try:
            read = submission.read(submission_folder)
        except submission.NoSubmission:
            raise Refusal(
                _("There is no folder {folder}. Type: python -m grader grade --submission FOLDER").format(
                    folder=submission_folder
                )
            ) from None
        to_stdout = json is not None and str(json) == "-"
        with grading.Grader(1 if len(names) == 1 else None) as grader:
            from grader import screen, results  # noqa: PLC0415  # rich loads while torch does

            with screen.progress(len(names) or len(grading.step_names())) as advance:
                report = grader.grade(read, names or None, device=device.value, seed=seed, on_step=advance)
        if to_stdout:
            sys.stdout.write(results.as_json(report))
            return
        if json is not None:
            _write(json, results.as_json(report))
        screen.show(report)


@application.command()
def exercises(
    folder: Annotated[Path, typer.Option(help="Where the stubs go.")] = Path("exercises"),
    solved: Annotated[
        bool, typer.Option(help="Write the references instead: what a course's own tests grade.")
    ] = False,
) -> None:
    """Write the stubs. A file that a learner has worked on is left alone."""
    from grader import exercises as stubs

    with language.use(_language(None)):
        if solved:
            stubs.write_solved(folder)
            return
        result = stubs.write(folder)
        for name in result.kept:
            print(_("{file} holds your work and was left alone.").format(file=folder / f"{name}.py"))
        print(
            _("{count} stubs in {folder} are fresh.").format(
                count=len(result.written) + len(result.fresh), folder=folder
            )
        )


def _language(asked: str | None) -> str:
    try:
        return language.choose(asked)
    except language.UnknownLanguage as unknown:
        raise Refusal(f"There is no language {unknown} here. Type: python -m grader grade --lang en  (or ko)") from None


def _step_name(wanted: str) -> str:
    names = grading.step_names()
    found = grading.match_step(wanted, names)
    if found is None:
        raise Refusal(
            _(
                "There is no step {wanted}. The steps are {first} to {last}. Type: python -m grader grade --step {first}"
            ).format(wanted=wanted, first=names[0], last=names[-1])
        )
    return found


def _write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise Refusal(
            _("{file} can't be written ({reason}). Type: python -m grader grade --json report.json").format(
                file=path, reason=error.strerror
            )
        ) from None


def main() -> int:
    """Runs the command line. 0: a report was written, 2: it could not be."""
    try:
        application(sys.argv[1:] or ["--help"], standalone_mode=False)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except grading.GraderError as error:
        print(error, file=sys.stderr)
        print(_("Type: KIT_DEBUG=1 make grade, and report what it prints."), file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print(_("Stopped. Nothing was graded. Type: make grade"), file=sys.stderr)
        return 130
    except typer.TyperException as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        print(f"{said} Type: python -m grader grade --help", file=sys.stderr)
        return 2
    return 0
