"""Every export of one small class, byte for byte: what a system has imported so far it goes on importing.

`python -m tests.feedback.test_all_exports` writes the file again, after a change that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from grader.base import language
from grader.base.results import Graded
from grader.classes import results
from grader.feedback import adapters, exports, items, table
from grader.feedback.standings import standing
from grader.marks import assignments, ledger, marking
from tests.feedback.test_exports import FULL, HALF, STEPS, WRONG, check, graded, report, step

EXPECTED = Path(__file__).with_name("exports.json")
TERM = '[assignments.homework]\nsteps = "1-2"\ndue = 2026-09-14T23:59:00\nlate = { per_day = 10, at_most = 50 }\n'
LOST = msgspec.structs.replace(step(STEPS[1], status="fail"), score=None, message="attention.ipynb is damaged.")
BY_PARTS = msgspec.structs.replace(
    step(STEPS[1], check("fail", 0.0, title="=1+1"), status="fail"), references=[STEPS[0]]
)


def a_class(folder: Path) -> list[Graded]:
    """Right, half right with a known mistake, open for a damaged file, on a reference, not graded, and absent."""
    file = folder / "assignments.toml"
    file.write_text(TERM, encoding="utf-8")
    term = assignments.read(file)
    counted = marking.Marking(term, term.assignments["homework"])
    people = [
        Graded(student="김민서", file="kim", key="", report=FULL, canvas_id="12", moodle_id="4711", section="A"),
        Graded(student="=1+1", file="sum", key="", report=HALF, login="ada@example.org", late=True, section="B"),
        graded("open", report(step(STEPS[0], check()), LOST)),
        graded("parts", report(step(STEPS[0], WRONG, status="fail"), BY_PARTS)),
        graded("broken", None, "it broke\x1b[31m"),
        msgspec.structs.replace(graded("absent", None, "excused"), absence="excused"),
    ]
    return [
        msgspec.structs.replace(
            one, file=one.file if one.file != "file" else one.student,
            mark=counted.mark(one.student, one.report) if one.report else None,
        )
        for one in people
    ]  # fmt: skip


def every_export(folder: Path) -> dict[str, str]:
    """The text of each export by language and name; in Korean of those that differ."""
    people = a_class(folder)
    texts: dict[str, str] = {}
    for spoken in ("en", "ko"):
        with language.use(spoken):
            for kind in results.FOLDERS:
                (folder / spoken / kind).mkdir(parents=True)
            for one in people:
                results.write_student(folder / spoken, one, "mailto:t@example.org", exports.STUDENT_FILES)
            files = {"ann": {"a.py": "graded as step01_scores", "=b": "it is a link"}}
            whole = exports.WholeClass(
                [*map(standing, people)], STEPS, "homework", "homework (9)", files, ["x.py"], {"y.py": "given"}
            )
            made = {name: content.decode() for name, content in exports.tables(whole).items()}
            made["marks.csv"] = ledger.marks_csv(((one.student, one.mark) for one in people), exports.harmless)
            made["items.csv"] = items.items_csv(items.items(people))
            row = table.TermRow("=1+1", "B", {"homework": 2.0}, "50.00", {"homework": "late"})
            made["term.csv"] = table.term_csv([row], ["homework"])
            (folder / "report.json").write_bytes(msgspec.json.encode(HALF))
            made |= {
                to: adapters.converted(folder / "report.json", to) for to in ("otter", "prairielearn", "gradescope")
            }
            written = [path for kind in exports.STUDENT_FILES for path in sorted((folder / spoken / kind).iterdir())]
            made |= {path.relative_to(folder / spoken).as_posix(): path.read_text(encoding="utf-8") for path in written}
            texts |= {f"{spoken} {name}": text for name, text in made.items() if text != texts.get(f"en {name}")}
    return texts


def test_each_export_is_as_before(tmp_path: Path) -> None:
    """Tables of a class, a term and its items, and the files about each student for other programs."""
    made, expected = every_export(tmp_path), json.loads(EXPECTED.read_text(encoding="utf-8"))
    assert {name.partition(" ")[2] for name in made} >= exports.TABLES.keys()
    assert made.keys() == expected.keys()
    for name, text in made.items():
        assert text == expected[name], name


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        text = json.dumps(every_export(Path(scratch)), ensure_ascii=False, indent=1)
    EXPECTED.write_text(text + "\n", encoding="utf-8")
