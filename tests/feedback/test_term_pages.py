"""What is made of a class: slides without names, items, similar pairs, feedback, other graders' results."""

from __future__ import annotations

import ast
import json
import random
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from grader.base import language
from grader.base.results import CheckResult, Graded, Parting, Report, StepResult
from grader.classes import hand_back, results
from grader.classes.results import Plan
from grader.course import steps as course
from grader.feedback import adapters, drafts, items, mistakes, pages, similarity
from grader.oracle.live import Solution
from tools import bench_similar

STEP = "step04_causal_mask"
NAMES = ["ada", "brook", "chen wei", "dora", "emre", "fatima", "김민서"]
PARTING = Parting(expected=[[1.0, 0.0]], got=[[0.5, 0.5]], differs=[[True, True]], slice=[], place=[0, 0])
MESSAGE = "called    masked_softmax([[0.0, 5.0]], [[True, False]])\nexpected  [[1.0, 0.0]]\ngot       [[0.5, 0.5]]"


def check(name: str, status: str = "pass", **more: object) -> CheckResult:
    """A check of two points."""
    plain = {
        "points": 2.0 if status == "pass" else 0.0,
        "max_points": 2.0,
        "title": f"Title of {name}.",
        "device": "cpu",
    }
    return CheckResult(name=name, status=status, **(plain | more))  # type: ignore[arg-type]


def graded(student: str, *checks: CheckResult) -> Graded:
    """A student with one step."""
    score, most = sum(one.points for one in checks), sum(one.max_points for one in checks)
    status = "pass" if score == most else "fail"
    step = StepResult(
        name=STEP, title="A mask", status=status, score=score, max_score=most, seconds=0.1, checks=list(checks)
    )
    report = Report(submission=student, seed=7, isolation=[], devices={}, score=score, max_score=most, steps=[step])
    return Graded(student=student, file=student, key="", report=report)


def a_class() -> list[Graded]:
    """Seven students: one check that nobody fails, one known mistake of three, one unknown of two, one alone."""
    wrong = {"message": MESSAGE, "parting": PARTING, "about": "masked_softmax"}
    known = wrong | {"misconception": "masked_after_softmax", "hint": "?"}
    other = wrong | {"message": MESSAGE.replace("0.5", "0.7")}
    entries = []
    for place, student in enumerate(NAMES):
        own: dict[str, object] = known if place < 3 else other if place < 5 else {}
        if place == 5:
            own = wrong | {
                "message": f"at line 3 of {student}/{STEP}.py\n{MESSAGE.replace('0.5', '0.9')}",
                "parting": None,
            }
        entries.append(graded(student, check("test_easy"), check("test_hard", "fail" if own else "pass", **own)))
    return entries


# --- what to project -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_the_page_to_project_names_nobody(spoken: str) -> None:
    """Neither a student, nor a file, nor a word of their code: only what several did, with the smallest case."""
    sources = {
        name: {STEP: f"def masked_softmax(scores, mask):\n    secret_{place} = 1\n"} for place, name in enumerate(NAMES)
    }
    with language.use(spoken):
        found = mistakes.mistakes(a_class(), sources)
        page = pages.slides(found, len(NAMES))
        staff = pages.staff(found, len(NAMES))
    assert not [name for name in [*NAMES, "secret_"] if name in page]
    assert page.count("data-slide data-step") == 2
    assert (
        "masked_softmax([[0.0, 5.0]], [[True, False]])" in page and page.count("<svg") == 6
    )  # two matrices and a scale on each slide
    assert [len(one.makers) for one in found] == [3, 2, 1]
    assert all(name in staff for name in NAMES[:6]) and NAMES[6] not in staff
    assert all(f"secret_{place}" in staff for place in range(6))


def test_pages_can_be_read_without_their_script() -> None:
    """Only the tools are hidden until the script runs; it is allowed by its hash, and nothing else is."""
    page = pages.slides(mistakes.mistakes(a_class()), 7)
    assert re.findall(r"<[^>]* hidden[ >]", page) == ['<form class="tools" data-tools hidden>']
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy and policy[1].count("'sha256-") == 2 and "unsafe-inline" in policy[1].partition("script-src")[0]


def test_markup_in_names_and_code_is_shown() -> None:
    """A folder's name and a learner's code are text."""
    entries = [graded("<b>x</b>", check("test_hard", "fail", message="<i>y</i>", about="masked_softmax"))]
    page = pages.staff(mistakes.mistakes(entries, {"<b>x</b>": {STEP: "<script>z</script>"}}), 1)
    assert "<b>x</b>" not in page and "<i>y" not in page and "<script>z" not in page and "&lt;b&gt;x" in page


@pytest.mark.parametrize(
    "source",
    [
        "x = '" + "A" * 10_000_000 + "'\ndef masked_softmax(scores, mask):\n    return '</script><script>alert(1)'\n",
        'def masked_softmax(scores, mask):\n    return f"""{scores}\n```\n## evil\n- `x`\n```python\nimport os\n"""\n',
    ],
    ids=["10 MB in a line", "a catalogue of its own"],
)
def test_hostile_code_is_shown_and_nothing_else(source: str) -> None:
    """On the page to project, the staff's, the items' and in a draft: no markup, no escape of a terminal, no entry."""
    students = ["<img src=x onerror=alert(1)>", "\x1b]0;t\x07", "a\u202eb"]
    said = "\x1b[31m<script>x</script>" + "y" * 1_000_000
    wrong = {"message": said, "parting": PARTING, "about": "masked_softmax"}
    entries = [graded(name, check("test_easy"), check("test_hard", "fail", **wrong)) for name in students]
    found = mistakes.mistakes(entries, {name: {STEP: source} for name in students})
    analysis, clusters = items.items(entries), items.clusters(entries)
    written = [
        pages.slides(found, 3),
        pages.staff(found, 3),
        items.items_csv(analysis),
        pages.items(analysis, clusters, 3, results="dist/class"),
    ]
    assert not [
        bad for bad in ("<img src", "<script>x", "<script>alert", "\x1b", "\u202e") for text in written if bad in text
    ]
    assert sum(map(len, written)) < 20_000_000
    lines = drafts.draft(source, clusters[0]).splitlines()
    assert [line for line in lines if line.startswith(("#", "```"))] == ["```python", "```"]


# --- items -----------------------------------------------------------------------------------------------------------


def test_the_check_that_nobody_fails_is_found() -> None:
    """And the other one tells strong work from weak, as the correlation says."""
    easy, hard = items.items(a_class())
    assert easy.nobody_fails and easy.remarks == ["No student fails it."] and easy.discrimination is None
    assert not hard.nobody_fails and (hard.begun, hard.passed) == (7, 1)
    page = pages.items([easy, hard], items.clusters(a_class()), 7, results="dist/class")
    silent = page[page.index('id="silent"') : page.index('id="clusters"')]
    assert "test_easy" in silent and "test_hard" not in silent
    few = items.items(a_class()[:3])
    assert not any(item.remarks for item in few)


def test_discrimination_is_the_correlation() -> None:
    """By hand: who passes the first check has all other points, who fails it has none: 1, and turned round -1."""
    for turned in (False, True):
        entries = [
            graded(str(place), check("test_a", "pass" if (place < 3) != turned else "fail"),
                   check("test_b", "pass" if place < 3 else "fail", message=str(place)))
            for place in range(6)
        ]  # fmt: skip
        first, _second = items.items(entries)
        assert first.discrimination == pytest.approx(-1 if turned else 1)
        assert bool(first.remarks) == turned


def test_unrecognised_answers_are_grouped_by_equal_answers() -> None:
    """Two with the same numbers are one group, also where their files have other names; recognised ones are none."""
    found = items.clusters(a_class())
    assert [cluster.students for cluster in found] == [["dora", "emre"], ["fatima"]]
    assert items.wrong_answers(a_class()[3].report) == items.wrong_answers(a_class()[4].report) != frozenset()  # type: ignore[arg-type]
    assert items.wrong_answers(a_class()[0].report) == frozenset()  # type: ignore[arg-type]


# --- similarity ------------------------------------------------------------------------------------------------------

CORE = [step for step in course.steps() if step.track == "core"]
STUBS = {step.name: step.stub() for step in CORE}


def ways(step: course.Step) -> dict[str, list[str]]:
    """Each public name of a step with the ways in which it can be written: the reference, variants, misconceptions."""
    found: dict[str, list[str]] = {}
    for node in ast.parse((step.folder / "variants.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
            (marked, *_more) = node.decorator_list
            replaced = [word.value.value for word in getattr(marked, "keywords", []) if word.arg == "replaces"
                        and isinstance(word.value, ast.Constant)]  # fmt: skip
            if replaced:
                node.decorator_list, node.name = [], replaced[0]
                found.setdefault(replaced[0], []).append(ast.unparse(node))
    documented = Solution(step.folder).wrong_ways
    for entry in documented.document.entries.values() if documented else ():
        for way in entry.ways if len(entry.ways[0].facts.names) == 1 else ():
            found.setdefault(way.facts.names[0], []).append(ast.unparse(ast.parse(documented.text(way))))
    return found


def honest(seed: int, steps: list[course.Step], count: int = 13) -> dict[str, dict[str, str]]:
    """People who wrote by themselves: nobody has the same way twice, as far as there are so many."""
    rng = random.Random(seed)
    shuffled = {
        step.name: {name: rng.sample(texts, len(texts)) for name, texts in ways(step).items()} for step in steps
    }
    return {
        f"student {place:02}": {
            step: "import torch\n\n\n" + "\n\n\n".join(texts[place % len(texts)] for texts in names.values())
            for step, names in shuffled.items()
        }
        for place in range(count)
    }


class Renamed(ast.NodeTransformer):
    """What somebody does who does not want to be found: other names, other comments, another order."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # as ast calls it
        names = {argument.arg for argument in node.args.args if argument.arg != "self"} | {
            each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and each.id in names:
                each.id = f"my_{each.id}"
            elif isinstance(each, ast.arg) and each.arg in names:
                each.arg = f"my_{each.arg}"
        node.body.insert(0, ast.Expr(ast.Constant("My own words.")))
        return node


def disguised(files: Mapping[str, str]) -> dict[str, str]:
    """A copy of a submission that looks like another one."""
    found = {}
    for step, text in files.items():
        tree = Renamed().visit(ast.parse(text))
        tree.body.reverse()
        found[step] = f"# all by myself\n{ast.unparse(ast.fix_missing_locations(tree))}\n"
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("steps", [CORE, CORE[2:6]], ids=["the core", "four steps"])
def test_two_copies_among_thirteen_are_the_first_pair(seed: int, steps: list[course.Step]) -> None:
    """Under other names and in another order; and no honest pair is above the share that the page states."""
    students = honest(seed, steps, 12)
    students["student 99"] = disguised(students["student 04"])
    found = similarity.pairs(students, STUBS)
    first, *others = found
    # A copy word for word is 1, or less where little is unusual in it; the disguise takes less than a tenth of that.
    word_for_word = similarity.pairs(students | {"student 99": students["student 04"]}, STUBS)[0].share
    assert (first.first, first.second) == ("student 04", "student 99")
    assert first.share > max(0.9 * word_for_word, similarity.HONEST)
    assert max((pair.share for pair in others), default=0.0) < similarity.HONEST
    marked = first.lines[max(first.steps, key=lambda step: first.steps[step])]
    assert all(marked)


def test_half_a_copy_is_found_and_a_known_source_too() -> None:
    """Four of eight steps from somebody else; and everything from a class of an earlier year: the first two pairs."""
    everybody = honest(4, CORE[:8], 15)  # of both years, so that nobody wrote what another one wrote
    students, earlier = (dict(list(everybody.items())[part]) for part in (slice(12), slice(12, None)))
    students["half"] = students["student 00"] | dict(list(disguised(students["student 01"]).items())[4:])
    students["old"] = disguised(earlier["student 14"])
    del students["student 00"]
    found = similarity.pairs(students, STUBS, {f"2025/{name}": files for name, files in earlier.items()})
    first = {(pair.first, pair.second, pair.is_known) for pair in found[:2]}
    assert first == {("half", "student 01", False), ("old", "2025/student 14", True)}


def test_the_same_unusual_wrong_answer_counts() -> None:
    """Of two that only two gave; one that three gave is not unusual."""
    students = honest(6, CORE[:3], 6)
    wrong = {"student 01": frozenset({"a", "b"}), "student 02": frozenset({"a", "b"}), "student 03": frozenset({"b"})}
    pair = next(one for one in similarity.pairs(students, STUBS, wrong=wrong) if one.answers)
    assert (pair.first, pair.second, pair.answers) == ("student 01", "student 02", ["a"])
    assert pair.likeness > pair.share


def test_stubs_and_what_everybody_wrote_say_nothing() -> None:
    """Untouched stubs share everything and are no pair; what the whole class has is told apart from pairs."""
    same = {f"{number}": dict(STUBS) for number in range(4)}
    assert similarity.pairs(same, STUBS) == []
    students = honest(7, CORE[:6], 9)
    for name in list(students)[:5]:
        students[name]["step03_attention"] = students["student 00"]["step03_attention"]
    (group,) = similarity.same_files(students, STUBS)
    assert group.step == "step03_attention" and len(group.students) == 5
    assert not [pair for pair in similarity.pairs(students, STUBS) if "step03_attention" in pair.steps and
                pair.steps["step03_attention"] > similarity.HONEST]  # fmt: skip


@pytest.mark.thorough
def test_the_pairs_that_are_looked_at_grow_with_the_class_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three times the class: some three times the pairs; and two who copied are the first of them."""
    counts = []
    looked_at = similarity._pair
    for size in (100, 300):
        students = {name: dict(files) for name, files in bench_similar.made(size).items()}
        students["s0001"] = dict(students["s0000"])
        seen: list[str] = []
        monkeypatch.setattr(similarity, "_pair", lambda *given, seen=seen: seen.append("") or looked_at(*given))
        found = similarity.pairs(students, {})
        assert {found[0].first, found[0].second} == {"s0000", "s0001"} and found[0].share > 0.9
        counts.append(len(seen))
    assert counts[1] < 3.5 * counts[0] and counts[1] < 300 * 299 / 8


def test_the_page_of_pairs(tmp_path: Path) -> None:
    """Both sources side by side with what is alike marked, what it can't say, and nothing that acts."""
    students = honest(8, CORE[:5], 5)
    students["<b>z</b>"] = disguised(students["student 01"])
    students["bad"] = {"step01_scores": "def ("}
    found = similarity.pairs(students, STUBS)
    page = pages.similar(found, [], students, {})
    assert "What this can" in page and 'class="line alike"' in page and "&lt;b&gt;z" in page and "<b>z" not in page
    assert similarity.not_comparable({"a": "def (", "b": "x = 1"}) == ["a"] and similarity.passages("def (") == []


def test_comparing_has_a_budget_of_one_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer isn't compared, and is parsed no more."""
    budget, parsed, count = similarity.syntax.budget, similarity.syntax.parsed, []
    monkeypatch.setattr(similarity.syntax, "budget", lambda: budget(0.05))
    monkeypatch.setattr(similarity.syntax, "parsed", lambda *given: (count.append(1), parsed(*given))[1])
    slow = "x = f'" + "{a}" * 4_000 + "'\n"
    files = {f"step{number:02}": f"{slow}y = {number}\n" for number in range(40)}
    left = similarity.not_comparable(files)
    assert left and "step00" not in left
    seen = len(count)
    similarity.pairs({"eve": files, "ada": {"step01": "x = 1"}}, {})
    similarity.same_files({"eve": files}, {})
    assert len(count) <= seen + 1


# --- other systems ---------------------------------------------------------------------------------------------------


def test_results_of_other_graders() -> None:
    """Otter's, with the keys that version 7.0.0 was seen to write, and PrairieLearn's."""
    report = a_class()[0].report
    assert report
    report.notes = ["Late."]
    otter, prairie = adapters.otter(report), adapters.prairielearn(report)
    summary, step = otter["tests"]
    assert list(otter) == ["tests"] and list(summary) == ["name", "visibility", "output", "status"]
    assert (summary["name"], summary["status"]) == ("Public Tests", "failed") and "Late." in summary["output"]
    assert list(step) == ["name", "score", "max_score", "visibility", "output"]
    assert (step["name"], step["score"], step["max_score"]) == (STEP, 2.0, 4.0)
    assert (prairie["score"], prairie["gradable"], len(prairie["tests"])) == (0.5, True, 2)
    assert prairie["tests"][1] == {
        "name": f"{STEP}: Title of test_hard.", "description": "test_hard", "points": 0.0, "max_points": 2.0,
        "output": f"{MESSAGE}\n→ ?",
    }  # fmt: skip


def test_a_report_is_converted(tmp_path: Path) -> None:
    """A file that is none is one sentence; where the grader itself failed there is no zero."""
    file, report = tmp_path / "report.json", a_class()[0].report
    assert report
    file.write_bytes(msgspec.json.encode(report))
    assert json.loads(adapters.converted(file, "prairielearn"))["score"] == 0.5
    report.steps[0] = msgspec.structs.replace(report.steps[0], score=None)
    file.write_bytes(msgspec.json.encode(report))
    assert json.loads(adapters.converted(file, "prairielearn"))["gradable"] is False
    for to in ("otter", "gradescope"):
        with pytest.raises(adapters.OnlyAZero, match="The grader itself failed"):
            adapters.converted(file, to)
    file.write_text("{}")
    with pytest.raises(adapters.NoReport, match="is not a report"):
        adapters.converted(file, "otter")


def left_behind(folder: Path, entries: list[Graded], submissions: Path) -> results.GradedClass:
    """A class that was graded, as it lies on the disk."""
    plan = Plan(
        seed=7, steps=[STEP], device="cpu", language="en", kit="", assignment="attention", submissions=str(submissions)
    )
    for name in ("reports", "pages"):
        (folder / name).mkdir(parents=True)
    (folder / "class.json").write_bytes(msgspec.json.encode(plan))
    for entry in entries:
        (folder / "reports" / f"{entry.file}.json").write_bytes(msgspec.json.encode(entry))
        (folder / "pages" / f"{entry.file}.html").write_text(entry.student)
    return results.read(folder)


def test_feedback_under_the_names_of_moodle(tmp_path: Path) -> None:
    """The name, the number and the kind in front, as Moodle's import takes them apart."""
    known = {"moodle_id": "123", "back": "Ada Lovelace_123_assignsubmission_file_"}
    entries = [msgspec.structs.replace(graded("Ada Lovelace"), **known), graded("brook")]
    packed = hand_back.build(tmp_path / "f.zip", left_behind(tmp_path / "class", entries, tmp_path), "moodle")
    assert (packed.count, packed.nameless) == (1, ["brook"])
    with zipfile.ZipFile(tmp_path / "f.zip") as archive:
        (name,) = archive.namelist()
        assert archive.read(name).decode() == entries[0].student
    assert name.split("_", 4) == ["Ada Lovelace", "123", "assignsubmission", "file", "feedback.html"]
    with pytest.raises(hand_back.NoNames):
        hand_back.build(tmp_path / "g.zip", left_behind(tmp_path / "two", [graded("brook")], tmp_path), "moodle")


def test_feedback_under_the_names_of_canvas(tmp_path: Path) -> None:
    """As `infer_comment_context_from_filename` reads them: without `LATE`, the first two whole numbers between
    underscores are the student and the file; after `anon` stand what is in the student's place, and the file."""
    submissions = tmp_path / "download"
    submissions.mkdir()
    for name in ("kim_min_LATE_1235_98766", "LATE_anon_x7Ab2_98767"):
        (submissions / f"{name}_{STEP}.py").write_text("x = 1\n")
    left = left_behind(tmp_path / "class", [graded("kim_min"), graded("anon_x7Ab2")], submissions)
    packed = hand_back.build(tmp_path / "f.zip", left, "canvas")
    with zipfile.ZipFile(tmp_path / "f.zip") as archive:
        anonymous, named = sorted([part for part in name.split("_") if part != "LATE"] for name in archive.namelist())
    assert packed.count == 2 and [part for part in named if part.isdecimal()] == ["1235", "98766"]
    assert anonymous[:3] == ["anon", "x7Ab2", "98767"]
