"""Commands for a term: check the assignments, slides, items, similar pairs, feedback, results for other graders."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base import paths
from grader.base.language import gettext as _
from grader.cli import assigned, common
from grader.cli.common import N_
from grader.cli.parser import BadInput, Parser, Subcommand, integer, one_of, refusal

if TYPE_CHECKING:
    from grader.classes.results import GradedClass

CLASS = Path("dist/class")


def _results_line(parser: Parser) -> None:
    parser.argument("RESULTS", help=_("The folder of a class that was graded; dist/class by default."))


def _term_line(parser: Parser) -> None:
    """Adds the options of `term`."""
    assigned.file_option(parser)
    assigned.roster_option(parser)
    parser.option("--results", Path, metavar="FOLDER", default=CLASS, help=_("Where the classes were graded to."))
    common.language_option(parser)


def _term(args: Namespace) -> None:
    """Checks the file of assignments and its tables, prints them, and writes the table of the term. Raises BadInput."""
    whole_term = assigned.term(args.assignments)
    if whole_term is None:
        sentence = _("There is no file {file}. Type: cp examples/course/assignments.toml .")
        raise BadInput(sentence.format(file="assignments.toml"))
    common.require_solutions()
    from grader.classes import results
    from grader.classes.roster import file_name
    from grader.feedback import history, table
    from grader.marks import assignments
    from grader.marks import marking as marks
    from grader.report import console

    totals = results.totals(whole_term)
    console.say(table.overview(whole_term, totals))
    try:
        for name in whole_term.assignments:
            marks.of(whole_term, name)
    except assignments.BadTerm as bad:
        raise refusal(bad, assigned.check_command(args.assignments)) from None
    register = assigned.register(args, whole_term)
    by_assignment = results.marks_of(args.results, whole_term, register)
    if by_assignment:
        file = args.results / "term.csv"
        (args.results / history.FOLDER).mkdir(parents=True, exist_ok=True)
        rows = table.term_rows(whole_term, by_assignment, register)
        common.write(
            file,
            table.term_csv(rows, list(by_assignment)).encode("utf-8-sig"),
            f"term --results {paths.typed(CLASS)}",
        )
        each = results.of_each(args.results, whole_term, register)
        for row in rows:
            page = args.results / history.FOLDER / f"{file_name(row.student)}.html"
            common.write(page, history.html(whole_term, row, each.get(row.student, {})), "term --results OTHER")
        for line in table.said(rows):
            print(line)
        sentence = _("The marks of the term are in {file}, and a page of each student over the term in {folder}.")
        print(sentence.format(file=file, folder=args.results / history.FOLDER))


def _project_line(parser: Parser) -> None:
    """Adds the options of `project`."""
    _results_line(parser)
    parser.option(
        "--at-least", integer(1), metavar="N", default=2, help=_("Students who made a mistake that gets a slide.")
    )
    common.language_option(parser)


def _project(args: Namespace) -> None:
    """Writes slides of a class's mistakes without names, and the same for staff with each student's code. Raises
    BadInput."""
    graded = _graded(args)
    from grader.feedback import mistakes, pages

    shown = mistakes.mistakes(graded.entries, graded.sources())
    slides = pages.slides(shown, graded.total, title=graded.title, at_least=args.at_least)
    common.write(graded.folder / "project.html", slides, f"project {paths.typed(graded.folder)}")
    common.write(graded.folder / "staff.html", pages.staff(shown, graded.total, title=graded.title), "project")
    sentence = _("To project, without names: {slides}. For staff, with each student's code: {staff}.")
    print(sentence.format(slides=graded.folder / "project.html", staff=graded.folder / "staff.html"))


def _items_line(parser: Parser) -> None:
    """Adds the options of `items`."""
    _results_line(parser)
    parser.option(
        "--draft", integer(1), metavar="N", help=_("Write a draft of a misconception from this unrecognised answer.")
    )
    common.language_option(parser)


def _items(args: Namespace) -> None:
    """Writes the analysis of the checks of a class, or with --draft a draft of a misconception."""
    graded = _graded(args)
    from grader.feedback import items, pages

    clusters = items.clusters(graded.entries)
    if args.draft is not None:
        _write_draft(args.draft, graded, "items " + paths.typed(graded.folder))
        return
    analysis = items.items(graded.entries)
    folder = paths.typed(graded.folder)
    page = pages.items(analysis, clusters, graded.total, results=folder, title=graded.title)
    common.write(graded.folder / "items.html", page, f"items {folder}")
    common.write(graded.folder / "items.csv", items.items_csv(analysis).encode("utf-8-sig"), f"items {folder}")
    silent = [item for item in analysis if item.nobody_fails]
    sentence = _(
        "{count} checks, {silent} of them failed by no student; {clusters} wrong answers without a name: {file}"
    )
    print(
        sentence.format(
            count=len(analysis), silent=len(silent), clusters=len(clusters), file=graded.folder / "items.html"
        )
    )


def _write_draft(number: int, graded: GradedClass, command: str) -> None:
    """Writes a draft of a misconception, from the unrecognised wrong answer of this number in `items.html`, from 1,
    into its step's folder. Raises BadInput, with `command` to type, if there is no such answer or no draft of it."""
    from grader.feedback import drafts, items

    clusters = items.clusters(graded.entries)
    if number > len(clusters):
        sentence = _("There are {count} unrecognised answers. Type: python -m grader {command}")
        raise BadInput(sentence.format(count=len(clusters), command=command))
    try:
        written = drafts.write(clusters[number - 1], graded.entries, graded.sources())
    except drafts.NoDraft as problem:
        raise refusal(problem, command) from None
    sentence = _(
        "The draft {name} is at the end of {file}. Read it: it is a student's code, and make prove runs it outside the "
        "sandbox. Give it a name, write its sentences in both languages, then type: make prove STEP={step}"
    )
    print(sentence.format(name=written.name, file=written.file, step=written.number))


def _similar_line(parser: Parser) -> None:
    """Adds the options of `similar`."""
    parser.argument("SUBMISSIONS", required=True, help=_("A folder with one folder per student."))
    parser.option(
        "--known",
        Path,
        metavar="FOLDER",
        several=True,
        help=_("Known sources, such as the class of an earlier year. May be repeated."),
    )
    parser.option("--results", Path, metavar="FOLDER", help=_("The class as it was graded, for equal wrong answers."))
    parser.option("--out", Path, metavar="FILE", default=Path("dist/similar.html"), help=_("Where the page goes."))
    assigned.options(parser)
    common.choice_options(parser)
    common.language_option(parser)


def _require_folders(folders: Iterable[Path]) -> None:
    """Raises BadInput for the first that is missing."""
    for folder in folders:
        if not folder.is_dir():
            raise refusal(_("There is no folder {folder}.", folder=folder), "similar SUBMISSIONS")


def _similar(args: Namespace) -> None:
    """Compares the submissions of a class, writes the page and prints the five likest pairs. Raises BadInput."""
    command = f"similar {paths.typed(Path(args.submissions))}"
    steps = assigned.steps(args, command)
    _require_folders([Path(args.submissions), *args.known])
    common.require_solutions()
    from grader.classes import results
    from grader.feedback import pages, similarity
    from grader.report import console

    try:
        compared = results.compared(Path(args.submissions), args.known, steps, args.results)
    except results.NoResults as problem:
        raise refusal(problem, "similar examples/course/submissions") from None
    with console.reading_progress(len(compared.students) + len(compared.known)) as advance:
        pairs = similarity.pairs(compared.students, compared.stubs, compared.known, compared.wrong, advance)
    groups = similarity.same_files(compared.students, compared.stubs)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    page = pages.similar(pairs, groups, compared.students, compared.known)
    common.write(args.out, page, f"{command} --out OTHER.html")
    for pair in pairs[:5]:
        print(f"{100 * pair.likeness:4.0f} %  {paths.typed(Path(pair.first))}  {paths.typed(Path(pair.second))}")
    above = sum(pair.likeness > similarity.HONEST for pair in pairs)
    sentence = _("{count} pairs have something unusual in common, {above} of them more than {share} %: {file}")
    print(sentence.format(count=len(pairs), above=above, share=f"{100 * similarity.HONEST:g}", file=args.out))
    if compared.left_out:
        sentence = _("Not compared, because it can't be read as Python: {files}")
        print(sentence.format(files=", ".join(compared.left_out)), file=sys.stderr)


def _feedback_line(parser: Parser) -> None:
    """Adds the options of `feedback`."""
    _results_line(parser)
    parser.option(
        "--to", one_of("moodle", "canvas"), metavar="moodle|canvas", help=_("Whose file names."), default="moodle"
    )
    parser.option(
        "--submissions", Path, metavar="FOLDER", help=_("What Canvas let you download: its names are needed.")
    )
    parser.option("--out", Path, metavar="FILE", help=_("Where the zip file goes."))
    common.language_option(parser)


def _feedback(args: Namespace) -> None:
    """Packs the pages for Moodle or Canvas, and prints how to upload them. Raises BadInput."""
    graded = _graded(args)
    from grader.classes import hand_back

    out = args.out or graded.folder / f"feedback-{args.to}.zip"
    command = f"feedback {paths.typed(graded.folder)} --to {args.to}"
    try:
        packed = hand_back.build(out, graded, args.to, args.submissions)
    except hand_back.NoNames as problem:
        raise refusal(problem, f"{command} --submissions FOLDER") from None
    except OSError as error:
        raise common.unwritable(out, error, f"{command} --out OTHER.zip") from None
    print(_("{count} pages are in {file}: upload it as it is.", count=packed.count, file=out))
    print(
        _("Canvas: Grades, the menu of the assignment, Re-Upload Submissions")
        if args.to == "canvas"
        else _("Moodle: the assignment, View all submissions, Upload multiple feedback files in a zip")
    )
    if packed.ungraded:
        sentence = _("Left out, because they could not be graded and have no page: {names}")
        print(sentence.format(names=", ".join(packed.ungraded)), file=sys.stderr)
    if packed.nameless:
        sentence = _("Left out, because {system} did not name what they handed in: {names}")
        print(sentence.format(system=args.to.title(), names=", ".join(packed.nameless)), file=sys.stderr)


def _convert_line(parser: Parser) -> None:
    """Adds the options of `convert`."""
    parser.argument("REPORT", required=True, help=_("A report: what grade --json wrote."))
    parser.option(
        "--to",
        one_of("otter", "prairielearn", "gradescope"),
        metavar="otter|prairielearn|gradescope",
        default="otter",
        help=_("Whose results."),
    )
    parser.option("--out", Path, metavar="FILE", default=Path("results.json"), help=_("Where the results go."))
    common.language_option(parser)


def _convert(args: Namespace) -> None:
    """Writes a saved report to the file `--out` as JSON of another grader, and prints so. Raises BadInput if the report
    can't be read, the file not be written, or a step has no mark yet that could only be shown as a zero."""
    from grader.feedback import adapters

    try:
        text = adapters.converted(Path(args.report), args.to)
    except adapters.NoReport as problem:
        raise BadInput(_("{problem} Type: python -m grader grade --json report.json", problem=problem)) from None
    except adapters.OnlyAZero as problem:
        sentence = _("{problem} There are no results: they would be a zero. Type: python -m grader doctor")
        raise BadInput(sentence.format(problem=problem)) from None
    common.write(args.out, text, f"convert {paths.typed(Path(args.report))} --out OTHER.json")
    print(_("The results are in {file}.", file=args.out))


def _graded(args: Namespace) -> GradedClass:
    """The graded class in the folder RESULTS, by default dist/class. Raises BadInput without results there."""
    from grader.classes import results

    folder = Path(args.results or CLASS)
    try:
        return results.read(folder)
    except results.NoResults as problem:
        sentence = _("{problem} Type: python -m grader class SUBMISSIONS --out {folder}")
        raise BadInput(sentence.format(problem=problem, folder=paths.typed(folder))) from None


COMMANDS = [
    Subcommand(
        "term", N_("Check assignments.toml, and put the marks of all assignments into one table."), _term_line, _term,
    ),
    Subcommand(
        "project", N_("Make slides of the mistakes, without names, and for staff a page with each student's code."),
        _project_line, _project,
    ),
    Subcommand(
        "items", N_("Show how many pass each check, and group wrong answers that have no name yet."),
        _items_line, _items,
    ),
    Subcommand(
        "similar", N_("List pairs of submissions that are more alike than chance."), _similar_line, _similar,
    ),
    Subcommand(
        "feedback", N_("Pack the students' pages into a zip file under the names of Moodle or Canvas."),
        _feedback_line, _feedback,
    ),
    Subcommand(
        "convert", N_("Turn a report into the results of Otter, PrairieLearn or Gradescope."), _convert_line, _convert,
    ),
]  # fmt: skip
