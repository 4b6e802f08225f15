"""Which steps are meant by what people type, and what is known of a track without importing it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from grader.base import language, paths
from grader.base.results import StepResult
from grader.cli import main
from grader.course import choice, exercises, tracks
from grader.course.submissions import Submission
from grader.learner import track_list
from tests.command import run

WRITTEN = "def f(x):\n    return x\n"
STUB = "def f(x):\n    raise NotImplementedError\n"


@pytest.fixture
def solutions(tmp_path: Path) -> Path:
    """A course of two tracks: four steps of the core, and two of positions that use two of them."""
    folder = tmp_path / "solutions"
    imports = {
        "core/step01_scores": [], "core/step02_softmax": [], "core/step03_attention": [], "core/step04_causal_mask": [],
        "positions/step16_sinusoids": ["core.step02_softmax"],
        "positions/step17_rotary": ["core.step04_causal_mask", "positions.step16_sinusoids"],
    }  # fmt: skip
    for step, used in imports.items():
        (folder / step).mkdir(parents=True)
        lines = [f"from solutions.{name}.reference import f\n" for name in used]
        (folder / step / "reference.py").write_text("".join(lines) + WRITTEN, encoding="utf-8")
    (folder / "positions" / "track.en.md").write_text("# Where a token is\n\nA paragraph.\n", encoding="utf-8")
    (folder / "positions" / "track.ko.md").write_text("# 토큰의 위치\n\n한 문단.\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (["4"], [4]), (["step04"], [4]), (["causal_mask"], [4]), (["step04_causal_mask"], [4]), (["004"], [4]),
        (["1-3"], [1, 2, 3]), (["1-2,16"], [1, 2, 16]), (["4", "2"], [2, 4]), (["2,2", "1-2"], [1, 2]),
        (["3 - 16"], [3, 4, 16]), (["softmax-mask"], [2, 3, 4]), ([], []),
    ],
)  # fmt: skip
def test_steps_as_people_type_them(solutions: Path, steps: list[str], found: list[int]) -> None:
    """In the order of the course, each once, whatever the order typed."""
    assert [int(name[4:6]) for name in choice.chosen(steps, solutions=solutions)] == found


def test_a_track_is_all_of_its_steps(solutions: Path) -> None:
    """Beside single steps, and beside another track."""
    positions = ["step16_sinusoids", "step17_rotary"]
    assert choice.chosen([], ["positions"], solutions) == positions
    assert choice.chosen(["1"], ["positions"], solutions) == ["step01_scores", *positions]
    assert choice.chosen([], ["positions", "core"], solutions) == choice.step_names(solutions)


@pytest.mark.parametrize(
    ("steps", "tracks", "said", "instead"),
    [
        (["99"], [], "There is no step 99. The steps are step01_scores to step17_rotary.", "--step step01_scores"),
        (["1-99"], [], "There is no step 99. ", "--step step01_scores"),
        (["3-1"], [], "3-1 ends before it starts.", "--step 1-3"),
        (["step"], [], "step fits several steps: step01_scores, step02_softmax, ", "--step step01_scores"),
        ([""], [], "There is no step ''. ", "--step step01_scores"),
        (["1,"], [], "There is no step ''. ", "--step step01_scores"),
        ([], ["reading"], "There is no track reading. The tracks are core, positions.", "--track core"),
    ],
)
def test_what_is_unknown_is_one_sentence(
    solutions: Path, steps: list[str], tracks: list[str], said: str, instead: str
) -> None:
    """It says what there is, and names something to type."""
    with pytest.raises(choice.UnknownChoice) as unknown:
        choice.chosen(steps, tracks, solutions)
    assert str(unknown.value).startswith(said)
    assert f"{unknown.value.option} {unknown.value.instead}" == instead


def test_one_step_where_one_is_meant(solutions: Path) -> None:
    """A range of one is one."""
    assert choice.single("4-4", solutions) == "step04_causal_mask"
    with pytest.raises(choice.UnknownChoice, match="Only one step fits here, and 1-2 stands for 2"):
        choice.single("1-2", solutions)


def test_the_core_and_what_was_begun(solutions: Path) -> None:
    """An untouched stub was not begun; a damaged file was, but not each step that a damaged notebook may answer."""
    core = choice.step_names(solutions, "core")
    shown = {"step16_sinusoids": ("x", STUB), "step17_rotary": ("x", WRITTEN)}
    assert choice.by_default({}, {}, solutions) == core
    assert choice.by_default(shown, {}, solutions) == [*core, "step17_rotary"]
    assert choice.by_default({}, {"step16_sinusoids": "damaged"}, solutions) == [*core, "step16_sinusoids"]
    notebook = dict.fromkeys(choice.step_names(solutions), "the notebook is damaged")
    assert choice.by_default({}, notebook, solutions) == core


def test_when_to_take_a_track_is_said_and_holds() -> None:
    """In both languages with the same numbers, and no step uses one that comes later than it says."""
    for track in tracks.tracks()[1:]:
        said = {}
        for spoken in language.LANGUAGES:
            with language.use(spoken):
                said[spoken] = [int(number) for number in re.findall(r"\d+", track.after)]
                assert "\n>" not in track.summary
        assert sorted(said["en"]) == sorted(said["ko"]) != [], track.name
        assert all(int(name[4:6]) <= max(said["en"]) for name in track.needs), track.name


def test_a_track_says_what_it_needs(solutions: Path) -> None:
    """Read from the imports of its references, or of the stubs where there are no references."""
    core, positions = tracks.tracks(solutions)
    assert (core.name, core.title, core.needs) == ("core", "core", [])
    assert (positions.title, positions.summary) == ("Where a token is", "A paragraph.")
    assert positions.needs == ["step02_softmax", "step04_causal_mask"]
    with language.use("ko"):
        assert positions.title == "토큰의 위치"
    assert tracks.with_needed(["step17_rotary"], solutions) == [
        "step02_softmax", "step04_causal_mask", "step16_sinusoids", "step17_rotary",
    ]  # fmt: skip
    stub = solutions / "positions" / "step16_sinusoids" / "stub.en.py"
    stub.with_name("reference.py").unlink()
    stub.write_text(f"from exercises.step03_attention import f\n{STUB}", encoding="utf-8")
    assert positions.needs == ["step03_attention", "step04_causal_mask"]


def test_each_track_has_a_total(solutions: Path) -> None:
    """In the order of the results."""

    def result(name: str, track: str, score: float) -> StepResult:
        return StepResult(
            name=name, track=track, title="", status="pass", score=score, max_score=8.0, seconds=0.0, checks=[]
        )

    graded = [result("step01", "core", 8.0), result("step02", "core", 2.5), result("step16", "positions", 4.0)]
    totals = [(one.name, one.title, one.score, one.max_score) for one in tracks.totals(graded, solutions)]
    assert totals == [("core", "core", 10.5, 16.0), ("positions", "Where a token is", 4.0, 8.0)]


def test_numbers_of_steps_are_short() -> None:
    """Runs as a range."""
    assert track_list.numbers([f"step{number:02}_x" for number in (1, 2, 3, 6, 8, 9)]) == "1-3, 6, 8-9"


# --- the whole command line, over a course with a second track -------------------------------------------------------


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the kit with two steps of the core, and a track of one step that uses the first of them."""
    home = tmp_path_factory.mktemp("course")
    shutil.copytree(paths.ROOT / "grader", home / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("step01_scores", "step02_softmax"):
        shutil.copytree(paths.SOLUTIONS / "core" / name, home / "solutions" / "core" / name)
    for spoken in language.LANGUAGES:
        shutil.copy(paths.SOLUTIONS / "core" / f"track.{spoken}.md", home / "solutions" / "core")
    for shared in paths.SOLUTIONS.glob("*.md"):  # the mistakes of many steps
        shutil.copy(shared, home / "solutions")
    other = home / "solutions" / "positions" / "step16_softmax_again"
    shutil.copytree(paths.SOLUTIONS / "core" / "step02_softmax", other)
    (other / "test_softmax.py").rename(other / "test_softmax_again.py")
    for file in other.glob("*.py"):
        text = file.read_text(encoding="utf-8").replace(
            "solutions.core.step02_softmax", f"solutions.positions.{other.name}"
        )
        file.write_text(text, encoding="utf-8")
    reference = other / "reference.py"
    source = reference.read_text(encoding="utf-8")
    imported = "from solutions.core.step01_scores.reference import dot_product_scores  # noqa: F401\n"
    reference.write_text(source.replace("import torch\n", f"import torch\n\n{imported}", 1), encoding="utf-8")
    (other.parent / "track.en.md").write_text("# Where a token is\n\nA paragraph.\n", encoding="utf-8")
    assert run(home, "exercises").returncode == 0
    return home


@pytest.mark.thorough
def test_a_newcomer_sees_the_core(course: Path) -> None:
    """The stubs of the core, its points, and a line about the other track."""
    assert sorted(path.stem for path in (course / "exercises").glob("*.py")) == ["step01_scores", "step02_softmax"]
    said = run(course, "grade").stdout
    assert "0 of 14: start with step01_scores" in said
    assert "One more track: make tracks" in said.splitlines()
    assert "make tracks" not in run(course, "grade", "--step", "1").stdout
    listed = run(course, "tracks").stdout
    assert "positions  Where a token is" in listed
    assert "make begin TRACK=positions" in listed


@pytest.mark.thorough
def test_the_list_counts_what_passes(course: Path, tmp_path: Path) -> None:
    """A track whose stubs are there is begun; an edited file that is wrong counts for nothing."""
    folder = tmp_path / "exercises"
    assert run(course, "exercises", "--folder", str(folder)).returncode == 0
    assert run(course, "begin", "positions", "--submission", str(folder)).returncode == 0
    source = (course / "solutions" / "core" / "step02_softmax" / "reference.py").read_text(encoding="utf-8")
    (folder / "step02_softmax.py").write_text(source, encoding="utf-8")
    (folder / "step01_scores.py").write_text("def dot_product_scores(query, key):\n    return 1\n", encoding="utf-8")
    listed = " ".join(run(course, "tracks", "--submission", str(folder)).stdout.split())
    assert "not begun" not in listed
    assert "1 of 2" in listed
    assert "0 of 1" in listed
    assert "✓ passes" in listed
    assert "· begun" in listed


@pytest.mark.thorough
def test_a_track_is_begun_and_graded(course: Path, tmp_path: Path) -> None:
    """Its stubs are written once; graded are those with something in them, each track with its total."""
    folder = tmp_path / "exercises"
    assert run(course, "exercises", "--folder", str(folder)).returncode == 0
    begun = run(course, "begin", "positions", "--submission", str(folder))
    assert begun.returncode == 0, begun.stderr
    again = run(course, "begin", "--track", "positions", "--submission", str(folder))
    assert "already exists and was left alone" in again.stdout
    file = folder / "step16_softmax_again.py"
    file.write_text("# a note\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    graded = ("grade", "--submission", str(folder), "--json", "-")
    assert [track["name"] for track in json.loads(run(course, *graded).stdout)["tracks"]] == ["core"]
    assert "step16_softmax_again.py holds your work" in run(course, "exercises", "--folder", str(folder)).stdout
    file.write_text("import torch\n\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n", encoding="utf-8")
    report = json.loads(run(course, *graded).stdout)
    assert [(track["name"], track["title"], track["max_score"]) for track in report["tracks"]] == [
        ("core", "Attention from scratch", 14.0),
        ("positions", "Where a token is", 8.0),
    ]
    assert (report["score"], report["max_score"]) == (sum(track["score"] for track in report["tracks"]), 22.0)
    assert [step["track"] for step in report["steps"]] == ["core", "core", "positions"]
    said = run(course, "grade", "--submission", str(folder), "--html", str(tmp_path / "report.html")).stdout
    assert "Where a token is" in said
    assert "make tracks" not in said
    assert "Where a token is" in (tmp_path / "report.html").read_text(encoding="utf-8")
    only = json.loads(run(course, *graded, "--track", "positions").stdout)
    assert [step["name"] for step in only["steps"]] == ["step16_softmax_again"]


def test_which_track_is_asked(course: Path) -> None:
    """One line, with a track that there is."""
    done = run(course, "begin")
    assert done.returncode == 2
    assert done.stderr == "Which track? There are: positions. Type: make begin TRACK=positions\n"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is declared can be shown, in both languages."""
    for spoken in language.LANGUAGES:
        with language.use(spoken):
            for group in main.GROUPS:
                for command in main.commands(group):
                    assert main.run([command.name, "--help"]) == 0
                    assert f"python -m grader {command.name}" in capsys.readouterr().out


def test_stubs_of_other_tracks_are_refreshed_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub of another day is written again in its place; none is added."""
    steps = exercises.steps.steps()
    monkeypatch.setattr(exercises, "CORE", "none")
    (tmp_path / f"{steps[0].name}.py").write_text(f"# of another day\n{steps[0].stub()}", encoding="utf-8")
    assert exercises.write(tmp_path).kept + exercises.write(tmp_path).written in ([steps[0].name], [])
    assert [path.stem for path in tmp_path.glob("*.py")] == [steps[0].name]


def test_a_submission_without_anything_is_the_core() -> None:
    """Of the real course: 100 points."""
    nothing = Submission("nothing")
    assert choice.by_default(nothing.sources, nothing.problems) == choice.step_names(None, choice.CORE)
