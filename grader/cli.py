"""The command line: arguments in, exit codes out; it decides nothing itself."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from grader import arguments, grading, language, notebooks, places, submission
from grader.language import gettext as _
from grader.limits import Limits

Submission = Annotated[Path, typer.Option("--submission", help="A folder of step files.")]
EXERCISES = Path("exercises")
application = typer.Typer(help="Grade attention from scratch.", add_completion=False, pretty_exceptions_enable=False)


HAS_SOLUTIONS = (places.ROOT / "solutions").is_dir()


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
    submission_folder: Submission = EXERCISES,
    step: Annotated[list[str] | None, typer.Option(help="Only this step (name or number); may be repeated.")] = None,
    device: Annotated[Device, typer.Option(help="Where the checks run.")] = Device.all,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Repeat a run with the same draws.")] = None,
    lang: Annotated[str | None, typer.Option(help="en or ko.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON; - for standard output.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page of --html in the browser.")] = False,
    require_isolation: Annotated[
        str | None, typer.Option(help="Refuse to grade without these layers: landlock,seccomp.", metavar="LAYERS")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0.1, max=100, help="Multiply every deadline by this: 3 for a slow machine.")
    ] = 1.0,
) -> None:
    """Grade a submission and say what to do next."""
    with language.use(_language(lang)):
        if open_page and html is None:
            raise Refusal(_("There is no page to open. Type: python -m grader grade --html report.html --open"))
        names = [_step_name(wanted) for wanted in step or []]
        limits = _limits(require_isolation, patience)
        try:
            read = submission.read(submission_folder)
        except submission.NoSubmission:
            raise Refusal(
                _("There is no folder {folder}. Type: python -m grader grade --submission FOLDER").format(
                    folder=submission_folder
                )
            ) from None
        to_stdout = json is not None and str(json) == "-"
        with grading.Grader(1 if len(names) == 1 else None, limits) as grader:
            from grader import results, screen  # rich loads while torch does

            with screen.progress(len(names) or len(grading.step_names())) as advance:
                report = grader.grade(read, names or None, device=device.value, seed=seed, on_step=advance)
        if to_stdout:
            arguments.speak(sys.stdout, encoding="utf-8")
            sys.stdout.write(results.as_json(report))
        else:
            if json is not None:
                _write(json, results.as_json(report), "--json report.json")
            screen.show(report, _again(submission_folder))
        if html is not None:
            from grader import page  # jinja2 loads only for a page

            _write(html, page.html(report), "--html report.html")
            print(_("The page is {file}").format(file=html.resolve()), file=sys.stderr if to_stdout else sys.stdout)
            if open_page and not page.show_in_browser(html):
                print(_("There is no browser here: open that file in one."), file=sys.stderr)


def _again(folder: Path) -> str:
    """The command that grades this folder again."""
    return "make grade" if folder == EXERCISES else f"python -m grader grade --submission {shlex.quote(str(folder))}"


@application.command()
def exercises(
    folder: Annotated[Path, typer.Option(help="Where the stubs go.")] = EXERCISES,
    solved: Annotated[
        bool, typer.Option(help="Write the references instead: what a course's own tests grade.")
    ] = False,
    lang: Annotated[str | None, typer.Option(help="en or ko: the language of the stubs.")] = None,
) -> None:
    """Write the stubs. A file that a learner has worked on is left alone."""
    from grader import exercises as stubs

    with language.use(_language(lang)):
        _require_references()
        if solved:
            _require_solutions()
            stubs.write_solved(folder)
            return
        try:
            result = stubs.write(folder)
        except OSError as error:
            raise Refusal(
                _("{file} can't be written ({reason}). Type: python -m grader exercises --folder OTHER").format(
                    file=folder, reason=error.strerror
                )
            ) from None
        for name in result.kept:
            print(_("{file} holds your work and was left alone.").format(file=folder / f"{name}.py"))
        print(
            _("{count} stubs in {folder} are fresh.").format(
                count=len(result.written) + len(result.fresh), folder=folder
            )
        )


@application.command(hidden=not HAS_SOLUTIONS)
def record() -> None:
    """Record the tape of every step: what a learner's copy of the kit answers from."""
    with language.use(_language(None)):
        _require_solutions()
        from grader import recorder

        try:
            recorder.record_all(on_step=lambda name, size: print(f"{name:26}{size:>9,} bytes"))
        except recorder.NotRecorded as failure:
            raise Refusal(
                _("The reference fails its own check: {reason} Type: make prove").format(reason=failure)
            ) from None


@application.command(hidden=not HAS_SOLUTIONS)
def kit(folder: Annotated[Path, typer.Option(help="Where the kit goes.")] = Path("dist/kit")) -> None:
    """Build the learner's copy of the kit, without the solutions, as a folder and as a zip file."""
    with language.use(_language(None)):
        _require_solutions()
        from grader import kit as building
        from grader import recorder

        try:
            archive = building.build(folder)
        except building.NotOurs:
            raise Refusal(
                _("{folder} holds something else than a kit. Type: python -m grader kit --folder OTHER").format(
                    folder=folder
                )
            ) from None
        except OSError as error:
            raise Refusal(
                _("{file} can't be written ({reason}). Type: python -m grader kit --folder OTHER").format(
                    file=folder, reason=error.strerror
                )
            ) from None
        except recorder.NotRecorded as failure:
            raise Refusal(
                _("The reference fails its own check: {reason} Type: make prove").format(reason=failure)
            ) from None
        print(
            _("The learner's kit is {folder}, and as one file {archive} ({size:.1f} MB).").format(
                folder=folder, archive=archive, size=archive.stat().st_size / 1e6
            )
        )


@application.command(hidden=not HAS_SOLUTIONS)
def release(
    folder: Annotated[Path, typer.Option(help="Where the course goes.")] = Path("dist/nbgrader"),
    per_step: Annotated[bool, typer.Option("--per-step", help="One notebook a step, not one for all.")] = False,
    lang: Annotated[str | None, typer.Option(help="en or ko: the language of the notebooks.")] = None,
) -> None:
    """Build a course for nbgrader: source notebooks, and the configuration that has it grade in the sandbox."""
    with language.use(_language(lang)):
        _require_solutions()
        try:
            from grader import release as releasing
        except ModuleNotFoundError as missing:
            raise Refusal(
                _("What instructors need is not installed ({reason}). Type: make release").format(reason=missing)
            ) from None
        try:
            written = releasing.build(folder, per_step=per_step)
        except releasing.NotOurs as edited:
            raise Refusal(
                _("{file} was edited and is left alone. Type: python -m grader release --folder OTHER").format(
                    file=edited
                )
            ) from None
        except OSError as error:
            raise Refusal(
                _("{file} can't be written ({reason}). Type: python -m grader release --folder OTHER").format(
                    file=error.filename or folder, reason=error.strerror
                )
            ) from None
        if written.kept_configuration:
            print(_("{file} was there already and was left alone.").format(file=folder / "nbgrader_config.py"))
        print(
            _("The course is in {folder}. Type: cd {folder} && nbgrader generate_assignment {name}").format(
                folder=places.typed(folder), name=notebooks.ASSIGNMENT
            )
        )


@application.command("class", hidden=not HAS_SOLUTIONS)
def class_(
    submissions: Annotated[Path, typer.Argument(help="A folder with one folder a student.", metavar="SUBMISSIONS")],
    out: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("dist/class"),
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Repeat a run with the same draws.")] = None,
    step: Annotated[list[str] | None, typer.Option(help="Only this step (name or number); may be repeated.")] = None,
    device: Annotated[Device, typer.Option(help="Where the checks run.")] = Device.all,
    jobs: Annotated[int | None, typer.Option(min=1, max=256, help="Processes side by side; one a core.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Grade on a Dask cluster: tcp://host:8786.", metavar="ADDRESS")
    ] = None,
    gradebook: Annotated[
        str | None, typer.Option(help="Also write nbgrader's gradebook: sqlite:///gradebook.db.", metavar="URL")
    ] = None,
    assignment: Annotated[str, typer.Option(help="What the assignment is called in other systems.")] = "attention",
    again: Annotated[bool, typer.Option("--again", help="Grade everyone, also who has not changed.")] = False,
    lang: Annotated[str | None, typer.Option(help="en or ko.")] = None,
    require_isolation: Annotated[
        str | None, typer.Option(help="Refuse to grade without these layers: landlock,seccomp.", metavar="LAYERS")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0.1, max=100, help="Multiply every deadline by this: 3 for a slow machine.")
    ] = 1.0,
) -> None:
    """Grade a class: every folder in SUBMISSIONS. Type the same again to go on where it stopped."""
    with language.use(_language(lang)):
        names = [_step_name(wanted, f"class {places.typed(submissions)} --step") for wanted in step or []]
        limits = _limits(require_isolation, patience, f"class {places.typed(submissions)}")
        from grader import pools

        if scheduler is None and HAS_SOLUTIONS:
            pools.begin(limits)
        _require_solutions()
        from grader import class_table, classroom, screen

        request = classroom.Request(
            submissions=submissions, out=out, steps=names, device=device.value, seed=seed, limits=limits,
            assignment=assignment, again=again, jobs=jobs, scheduler=scheduler, gradebook=gradebook,
        )  # fmt: skip
        try:
            done = classroom.run(request, screen.class_progress)
        except classroom.Impossible as impossible:
            raise Refusal(str(impossible)) from None
        except classroom.Stopped as stopped:
            print(stopped, file=sys.stderr)
            raise typer.Exit(130) from None
        screen.say(class_table.terminal(done.standings, done.kept))
        print(_("The class page is {file}, the scores are in {table}.").format(
            file=out / "index.html", table=out / "class.csv"
        ))  # fmt: skip
        if done.left_out:
            said = _(
                "Left out, since a student is a folder: {files}. Put each that somebody handed in into one, unpacked."
            )
            print(said.format(files=", ".join(map(submission.readable, done.left_out))), file=sys.stderr)
        if any(standing.score is None for standing in done.standings):
            if not _said_of_steps():
                print(_("Type the same command again to try those again that could not be graded."), file=sys.stderr)
            raise typer.Exit(1)


@application.command(hidden=not HAS_SOLUTIONS)
def gradescope(out: Annotated[Path, typer.Option(help="Where it goes.")] = Path("dist/gradescope.zip")) -> None:
    """Build the autograder for Gradescope: one zip file to upload there."""
    with language.use(_language(None)):
        _require_solutions()
        from grader import gradescope as autograder

        try:
            autograder.build(out)
        except OSError as error:
            raise Refusal(
                _("{file} can't be written ({reason}). Type: python -m grader gradescope --out OTHER.zip").format(
                    file=out, reason=error.strerror
                )
            ) from None
        print(_("The autograder is {file} ({size:.1f} MB): upload it as it is.").format(
            file=out, size=out.stat().st_size / 1e6
        ))  # fmt: skip


Language = Annotated[str | None, typer.Option(help="en or ko.")]
StepArgument = Annotated[str | None, typer.Argument(help="A step: its name or number.", metavar="STEP")]


@application.command()
def watch(
    step: Annotated[str | None, typer.Argument(help="Begin with this step.", metavar="STEP")] = None,
    submission_folder: Submission = EXERCISES,
    device: Annotated[Device, typer.Option(help="Where the checks run.")] = Device.cpu,
    lang: Language = None,
    require_isolation: Annotated[
        str | None, typer.Option(help="Refuse to grade without these layers: landlock,seccomp.", metavar="LAYERS")
    ] = None,
) -> None:
    """Grade each save as it happens, until q is pressed."""
    with language.use(_language(lang)):
        name = _step_name(step, "watch") if step else None
        _folder(submission_folder, "watch")
        limits = _limits(require_isolation, 1.0, "watch")
        from grader import watch as watching

        watching.run(submission_folder, name, device.value, limits.required)


@application.command()
def hint(step: StepArgument = None, submission_folder: Submission = EXERCISES, lang: Language = None) -> None:
    """Give one hint more for a step."""
    with language.use(_language(lang)):
        name = _step_name(step, "hint")
        _folder(submission_folder, "hint")
        from grader import lessons, screen

        try:
            screen.say(lessons.shown(name, lessons.next_hint(name, submission_folder)))
        except lessons.NoLesson:
            raise Refusal(
                _("There are no hints for {step}. Type: python -m grader lesson {step}").format(step=name)
            ) from None


@application.command()
def lesson(step: StepArgument = None, lang: Language = None) -> None:
    """Show the lesson of a step."""
    with language.use(_language(lang)):
        name = _step_name(step, "lesson")
        from grader import lessons, screen

        try:
            screen.say(lessons.Lesson(lessons.lesson(name)))
        except lessons.NoLesson:
            raise Refusal(
                _("There is no lesson for {step}. Type: python -m grader grade --step {step}").format(step=name)
            ) from None


@application.command()
def reset(step: StepArgument = None, submission_folder: Submission = EXERCISES, lang: Language = None) -> None:
    """Put the stub of a step back; your work is kept beside it, dated."""
    with language.use(_language(lang)):
        name = _step_name(step, "reset")
        _folder(submission_folder, "reset")
        from grader import lessons, screen

        try:
            screen.say(lessons.told(lessons.reset(name, submission_folder)))
        except lessons.NoStub:
            raise Refusal(
                _("The stub of {step} is not in this copy of the kit. Type: python -m grader doctor").format(step=name)
            ) from None
        except OSError as error:
            raise Refusal(
                _("Nothing was changed: {reason}. Type: python -m grader doctor").format(reason=error.strerror or error)
            ) from None


@application.command()
def doctor(submission_folder: Submission = EXERCISES, lang: Language = None) -> None:
    """Say what works here, what does not, and the command that mends it."""
    try:
        chosen = language.choose(lang)
    except language.UnknownLanguage:  # one of the things that are looked at
        chosen = "en"
    with language.use(chosen):
        from grader import doctor as examination
        from grader import screen

        with screen.waiting() as looking_at:
            findings = list(examination.examine(submission_folder, looking_at))
        screen.say(examination.table(findings))
        if not examination.works(findings):
            raise typer.Exit(1)


def _language(asked: str | None) -> str:
    try:
        return language.choose(asked)
    except language.UnknownLanguage as unknown:
        with language.use(arguments.spoken(sys.argv[1:])):
            said = _(
                "There is no language {name} here, only {known}. Type: python -m grader {command} --lang en"
            ).format(name=unknown, known=", ".join(language.LANGUAGES), command=_command())
        raise Refusal(said) from None


def _limits(require_isolation: str | None, patience: float, command: str = "grade") -> Limits:
    """The limits of a run: the layers that it may not do without, and how slow the machine is."""
    if require_isolation is None:
        return Limits(patience=patience)
    try:
        return Limits(patience=patience, required=grading.required_layers(require_isolation))
    except grading.UnknownLayer as unknown:
        raise Refusal(
            _(
                "There is no layer “{name}”. The layers are {layers}. "
                "Type: python -m grader {command} --require-isolation landlock,seccomp"
            ).format(name=unknown, layers=", ".join(grading.LAYERS), command=command)
        ) from None


def _step_name(wanted: str | None, command: str = "grade --step") -> str:
    names = grading.step_names()
    if wanted is None:
        raise Refusal(
            _("Which step? They are {first} to {last}. Type: python -m grader {command} {first}").format(
                first=names[0], last=names[-1], command=command
            )
        )
    found = grading.match_step(wanted, names)
    if found is None:
        _require_names()
        raise Refusal(
            _(
                "There is no step {wanted}. The steps are {first} to {last}. Type: python -m grader {command} {first}"
            ).format(wanted=wanted, first=names[0], last=names[-1], command=command)
        )
    return found


def _require_solutions() -> None:
    """The solutions are here, and the folder of each step is whole."""
    if not HAS_SOLUTIONS:
        raise Refusal(_("This copy of the kit has no solutions. Type: make grade"))
    from grader import authoring

    _refuse(authoring.in_folders())


def _require_references() -> None:
    """Stubs can be made of the references; the other files of a step may be still to come."""
    if HAS_SOLUTIONS:
        from grader import authoring

        _refuse(authoring.in_references())


def _require_names() -> None:
    """No folder is misnamed, and no two steps have one number: then a step that is not found is not there."""
    if HAS_SOLUTIONS:
        from grader import authoring

        _refuse(authoring.in_names())


def _refuse(problems: list[str]) -> None:
    if problems:
        raise Refusal("\n".join([*problems, _("That is for whoever writes the step. Type: make prove")]))


def _said_of_steps() -> bool:
    """Says what is wrong with the steps themselves, if anything is: then the fault is not the engine's."""
    if not HAS_SOLUTIONS or os.environ.get("KIT_DEBUG"):
        return False
    from grader import authoring

    try:
        _refuse(authoring.problems())
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return True
    return False


def _folder(folder: Path, command: str) -> None:
    if not folder.is_dir():
        raise Refusal(
            _("There is no folder {folder}. Type: python -m grader {command} --submission FOLDER").format(
                folder=folder, command=command
            )
        )


def _write(path: Path, text: str, option: str) -> None:
    """Writes a file whole or not at all; `option` is what to type instead where it can't be written."""
    unfinished = path.parent / f".{path.name}.{os.getpid()}"
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where nothing may be written, nothing may be removed
            unfinished.unlink(missing_ok=True)
        raise Refusal(
            _("{file} can't be written ({reason}). Type: python -m grader grade {option}").format(
                file=path, reason=error.strerror, option=option
            )
        ) from None


def _command() -> str:
    """The command that was typed, `grade` where none was understood."""
    return next((word for word in sys.argv[1:2] if word in _commands_known()), "grade")


def _commands_known() -> set[str]:
    return {
        command.name or command.callback.__name__ for command in application.registered_commands if command.callback
    }


def main() -> int:
    """Runs the command line. 0: done, 1: `doctor` found what keeps grading from working, 2: refused."""
    arguments.speak(sys.stdout)
    arguments.speak(sys.stderr)
    with language.use(arguments.spoken(sys.argv[1:])):
        return _run()


def _run() -> int:
    try:
        code = arguments.run(application, "python -m grader", sys.argv[1:] or ["--help"])
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except grading.NotIsolated as refused:
        print(refused, file=sys.stderr)
        return 2
    except grading.GraderError as error:
        if _said_of_steps():
            return 2
        print(error, file=sys.stderr)
        if not isinstance(error, grading.UnfitCopy):
            print(_("Type: KIT_DEBUG=1 make grade, and report what it prints."), file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print(_("Stopped. Nothing was graded. Type: make grade"), file=sys.stderr)
        return 130
    except typer.TyperException as error:
        print(arguments.misunderstood(error, f"python -m grader {_command()} --help"), file=sys.stderr)
        return 2
    except Exception:
        if _said_of_steps():
            return 2
        raise
    return code if isinstance(code, int) else 0
