"""`make docs`: the pages that list every wrong way that the kit knows, one per language."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from grader.author import lint
from grader.base import mistakes, paths
from grader.base.language import LANGUAGES, use
from grader.base.language import gettext as _
from grader.oracle.live import Solution, solutions

DOCS = paths.ROOT / "dist" / "docs"
FILES = {"en": DOCS / "misconceptions.md", "ko": DOCS / "misconceptions.ko.md"}
GENERATED = "<!-- Generated from solutions/ by `make docs`: edit the misconceptions of the step instead. -->"
# The few sentences of the page itself.
HEADINGS = {
    "en": (
        "Misconceptions",
        "Wrong ways that people take, {count} in all, by step. Each is an implementation in `solutions/`; the kit's "
        "own tests show that the named check refuses it, and a learner who gives the same answers is told so.",
        ("name", "what was done", "caught by"),
        "In many steps",
    ),
    "ko": (
        "알려진 오답",
        "사람들이 저지르는 오답 {count}개를 단계별로 모았습니다. 오답은 저마다 `solutions/`에 코드로 들어 있습니다. "
        "표에 적힌 검사가 그 오답을 걸러 낸다는 것을 키트의 테스트가 확인하며, 같은 답을 내는 학습자는 무엇을 "
        "잘못했는지 듣게 됩니다.",
        ("이름", "무엇을 했는가", "걸러 내는 검사"),
        "여러 단계에서",
    ),
}


def page(spoken: str, whole: bool = False, listed: list[Solution] | None = None) -> str:
    """The page of known mistakes in a language (`en`, `ko`) as Markdown: for each of the `listed` steps (None: all) a
    table or, with `whole`, its documents of mistakes with all edits, if it has any; then a table of the mistakes of
    many steps."""
    steps = solutions() if listed is None else listed
    title, introduction, columns, in_many = HEADINGS[spoken]
    everywhere = {name: entry.said[0] for name, entry in mistakes.of_many_steps().entries.items() if entry.ways}
    count = sum(len(_known(step)) for step in steps) + len(everywhere)
    with use(spoken):
        parts = [f"{GENERATED}\n\n# {title}\n", introduction.format(count=count) + "\n"]
        parts += [(_documents(step, spoken) if whole else "") or _section(step, columns) for step in steps]
        rows = [columns[:2], ("---",) * 2, *((f"`{name}`", _(what)) for name, what in everywhere.items())]
        parts.append(f"## {in_many}\n\n{_table(rows)}\n")
    return "\n".join(parts)


def _documents(step: Solution, spoken: str) -> str:
    """A step's documents of mistakes below one heading; empty if it has none."""
    texts = [file.read_text(encoding="utf-8") for file in mistakes.files_of(step.folder, korean=spoken == "ko")]
    parts = (re.sub(r"\A#(?= )|^##(?= )", r"##\g<0>", text.rstrip("\n") + "\n", flags=re.M) for text in texts)
    return f"## {step.number}. {_(step.title)}\n\n" + "\n".join(parts) if texts else ""


def _section(step: Solution, columns: tuple[str, ...]) -> str:
    """The section of a step: a table of its mistakes, each with the check that catches it."""
    rows = [
        columns,
        ("---",) * len(columns),
        *((f"`{name}`", _(what), f"`{caught_by}`") for name, what, caught_by in _known(step)),
    ]
    return f"## {step.number}. {_(step.title)}\n\n{_table(rows)}\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of these rows, the second of which are its dashes."""
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _known(step: Solution) -> list[tuple[str, str, str]]:
    """The name of each misconception, what it does, and the check that catches it. They are read from the source, since
    a package that the step needs may be missing here, and the page is the same everywhere."""
    if not step.lacking:
        return [(wrong.name, wrong.what, wrong.caught_by) for wrong in step.misconceptions if not wrong.form_of]
    document = mistakes.read(step.folder)
    texts = mistakes.texts(step.folder, document)
    return [(name, texts[name][0], document.entries[name].ways[0].facts.caught_by) for name in texts]


def main() -> None:
    """Writes the pages of both languages into dist/docs/. Exits with 2 if a step's folder has mistakes of its
    author."""
    if lint.main():
        sys.exit(2)
    DOCS.mkdir(parents=True, exist_ok=True)
    for spoken in LANGUAGES:
        FILES[spoken].write_text(page(spoken, whole=True), encoding="utf-8")


if __name__ == "__main__":
    main()
