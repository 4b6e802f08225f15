"""The learner's copy of the kit: built as `make kit` builds it, then used as a learner would."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from grader.author import kit, recorder
from grader.base import files, mistakes, paths
from grader.calls.call import Call
from grader.calls.codec import packed_outcome
from grader.calls.values import PlacedTensor
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.course import choice, submissions
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from grader.oracle.tape import Tape
from tests.asked import Asked
from tests.command import run
from tests.watched import Session
from tests.whole import WHOLE
from tools.fresh import TELLING, solution_lines

pytestmark = pytest.mark.thorough  # a kit records its tapes, which takes a minute

# Electives go the same way. Recording all of the core takes minutes, so that CI leaves the long steps to `make check`.
STEPS = choice.step_names(None, choice.CORE)[: None if WHOLE else 7]
POINTS = sum(step.points for step in solutions() if step.name in STEPS)
LINE = re.compile(r"`(Tape\(file\)\.[^`]+)`")  # in docs/security.md: it reads what a tape gives away
SMALL = next(step for step in solutions() if step.name == "step07_heads")
WRITE = {
    "view": {"text": "Theo put the", "weights": "kit-en"}, "ids": [], "count": 5, "temperature": 0.8, "top_k": 20,
    "top_p": 1.0,
}  # fmt: skip
MOST_BYTES = 1_700_000  # of the tapes of the core
# Of the tapes up to a step: what a learner's copy may weigh.
MOST_UP_TO = {18: 2_500_000, 24: 4_000_000, 29: 5_600_000}

# Wrong files as a learner writes them, and the names that they are given.
WRONG = {
    "step01_scores": (
        "unscaled",
        "def dot_product_scores(query, key):\n    return query @ key.mT\n\n"
        "def scaled_scores(query, key):\n    return query @ key.mT / query.shape[-1]\n",
    ),
    "step04_causal_mask": (
        "upside down",
        "import torch\n\n"
        "def causal_mask(num_tokens, device=None):\n"
        "    i = torch.arange(num_tokens, device=device)\n    return i[:, None] <= i[None, :]\n\n"
        "def masked_softmax(scores, mask):\n"
        "    return torch.softmax(scores.masked_fill(~mask, float('-inf')), -1).nan_to_num()\n\n"
        "def renormalise(weights, mask):\n"
        "    kept = weights.masked_fill(~mask, 0.0)\n    return kept / kept.sum(-1, keepdim=True)\n",
    ),
    "step05_dropout": (
        "not scaled",
        "import torch\nfrom torch import nn\n\n"
        "def dropout(x, p=0.5, training=True):\n    if not training:\n        return x\n"
        "    if p < 0 or p > 1:\n        raise ValueError(p)\n"
        "    return x * (torch.rand(x.shape, device=x.device) >= p)\n\n"
        "class Dropout(nn.Module):\n    def __init__(self, p=0.5):\n        super().__init__()\n        self.p = p\n\n"
        "    def forward(self, x):\n        return dropout(x, self.p, self.training)\n",
    ),
    "step06_causal_attention": (
        "neither scaled nor masked",
        "import torch\nfrom torch import nn\n\n"
        "class CausalAttention(nn.Module):\n"
        "    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):\n"
        "        super().__init__()\n        self.longest = context_length\n"
        "        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)\n"
        "        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)\n"
        "        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)\n"
        "        self.dropout = nn.Dropout(dropout)\n\n"
        "    def forward(self, x):\n        if x.shape[1] > self.longest:\n            raise ValueError(x.shape)\n"
        "        scores = self.W_query(x) @ self.W_key(x).mT\n"
        "        return self.dropout(scores.softmax(-1)) @ self.W_value(x)\n",
    ),
    "step07_heads": (
        "merged without the transpose",
        "def split_heads(x, num_heads):\n    B, T, D = x.shape\n    if D % num_heads:\n"
        "        raise ValueError(f'{D} is not divisible by {num_heads}')\n"
        "    return x.reshape(B, T, num_heads, D // num_heads).transpose(1, 2)\n\n"
        "def merge_heads(x):\n    B, H, T, d = x.shape\n    return x.reshape(B, T, H * d)\n",
    ),
}


def graded(folder: Path, files: Path, *arguments: str) -> dict[str, object]:
    """The report of the kit in `folder` on a folder of step files."""
    done = run(folder, "grade", "--submission", str(files), "--device", "cpu", "--json", "-", *arguments)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit, built once."""
    folder = tmp_path_factory.mktemp("dist") / "kit"
    assert kit.build(folder, STEPS) == folder.with_suffix(".zip")
    return folder


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_it_holds_all_rooms_of_the_engine_but_three(built: Path) -> None:
    """No room of an author's or an instructor's, and every other module."""
    engine = {path.relative_to(paths.ROOT / "grader") for path in (paths.ROOT / "grader").rglob("*.py")}
    inside = {path.relative_to(built / "grader") for path in (built / "grader").rglob("*.py")}
    assert {path.parts[0] for path in engine - inside} == {
        "author",
        "classes",
        "feedback",
        "marks",
        "publish",
        "nbgrader.py",
    }
    assert not inside - engine


def test_nothing_else_is_in_it(built: Path) -> None:
    """No reference, no misconception, no variant, no test of ours, no catalogue to translate from."""
    for name in STEPS:
        check = f"test_{name.partition('_')[2]}.py"
        expected = {
            check,
            "lesson.en.md",
            "lesson.ko.md",
            "stub.en.py",
            "stub.ko.py",
            "tape.safetensors",
            "pictures.json",
            "built.py",
            *(["stock.py"] if (paths.step_folder(name) / "stock.py").is_file() else []),
        }
        assert {path.name for path in (built / "steps" / "core" / name).iterdir()} == expected
    assert {path.name for path in built.iterdir()} == {
        ".vscode", "LICENSE", "Makefile", "README.ko.md", "README.md", "classroom50", "conftest.py", "exercises",
        "grader", "pytest.ini", "requirements", "steps",
    }  # fmt: skip
    assert not [
        *built.rglob("*.po"),
        *built.rglob("reference.py"),
        *built.rglob("misconceptions*"),
        *built.rglob("mistakes*.md"),
    ]
    assert {path.stem for path in (built / "exercises").iterdir()} == set(STEPS)


def test_no_line_of_a_solution_is_in_it(built: Path) -> None:
    """Neither of a reference nor of a misconception, and not in the tapes either."""
    telling = {line for step in solutions() for line in [*solution_lines(step), *misconception_lines(step)]}
    public = {line.strip() for name in STEPS for line in stub_and_checks(built, name)}
    telling -= public
    assert len(telling) > 500
    for path in (path for path in built.rglob("*") if path.is_file()):
        text = text_of(path)
        found = {line.partition("#")[0].strip() for line in text.splitlines()} & telling
        assert not found, f"{path.relative_to(built)}: {found}"
        if path.name == paths.TAPE:
            assert not [line for line in telling if line in text]


def misconception_lines(step: Solution) -> Iterator[str]:
    """The telling lines in the bodies of a step's wrong ways."""
    for entry in mistakes.read(step.folder).entries.values():
        for line in (
            line[1:].strip() if way.language == "diff" else line.strip()
            for way in entry.ways
            for line in way.code.splitlines()
        ):
            if len(line) >= TELLING and not line.startswith(("def ", "class ", "super()", "@", ") -> ")):
                yield line


def stub_and_checks(built: Path, name: str) -> list[str]:
    """The lines that a learner reads anyway."""
    return [
        line for path in (built / "steps" / "core" / name).glob("*.py") for line in path.read_text("utf-8").splitlines()
    ]


def text_of(path: Path) -> str:
    """All text in a file: of a tape, its parts unpacked."""
    data = path.read_bytes()
    if path.name == paths.TAPE:
        data = b"\n".join(zlib.decompress(part.numpy().tobytes()) for part in load(data).values())
    return data.decode("utf-8", errors="replace")


@pytest.mark.skipif(not WHOLE, reason="it takes the tapes of the whole core")
def test_tapes_are_small(built: Path) -> None:
    """All twelve together stay below 1.7 MB: each known form of a mistake adds some kB."""
    sizes = {path.parent.name: path.stat().st_size for path in built.rglob(paths.TAPE)}
    assert len(sizes) == len(STEPS)
    assert sum(sizes.values()) < MOST_BYTES, sizes


@pytest.mark.skipif(not WHOLE, reason="recording every track takes minutes: make check does it")
def test_a_copy_with_all_tracks(solved: Path, tmp_path: Path) -> None:
    """Its tapes are small, the references pass in it, and its lessons have their pictures."""
    folder = tmp_path / "kit"
    kit.build(folder)
    sizes = {path.parent.name: path.stat().st_size for path in folder.rglob(paths.TAPE)}
    assert sizes.keys() == {step.name for step in solutions() if not step.lacking}
    for last, most in MOST_UP_TO.items():
        assert sum(size for name, size in sizes.items() if int(name[4:6]) <= last) < most, sizes
    report = graded(folder, solved, "--seed", "0")
    assert {step["name"]: step["status"] for step in report["steps"]} == dict.fromkeys(sizes, "pass")  # type: ignore[attr-defined]
    drawn = {path.parent.name for path in folder.rglob("pictures.json")}
    assert drawn == sizes.keys()


def test_the_zip_file_holds_the_same(built: Path, tmp_path: Path) -> None:
    """Every file of the folder, dated alike, so that two builds are one file."""
    with zipfile.ZipFile(built.with_suffix(".zip")) as archive:
        names = {f"{kit.TOP}/{path.relative_to(built).as_posix()}" for path in built.rglob("*") if path.is_file()}
        assert set(archive.namelist()) == {name for name in names if "__pycache__" not in name}
        assert {entry.date_time for entry in archive.infolist()} == {files.NO_DATE}


def test_the_makefile_has_the_learners_targets(built: Path) -> None:
    """No more, and each of those that are named."""
    targets = re.findall(r"^([a-z0-9-]+):", (built / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(targets) == {target for target in kit.TARGETS if not target.startswith(".venv/")}


def test_another_folder_is_not_written_over(tmp_path: Path) -> None:
    """What is no kit stays."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(files.NotOverwritten):
        kit.build(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


# --- tapes -----------------------------------------------------------------------------------------------------------


def test_two_recordings_are_the_same_bytes(built: Path) -> None:
    """Here and in the process that built the kit."""
    assert recorder.record(SMALL) == (built / "steps" / "core" / SMALL.name / paths.TAPE).read_bytes()


LOADED = """
import pathlib, sys
from grader.author import recorder
recorder._record(pathlib.Path(sys.argv[1]))
print(*(module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)), sep="\\n")
"""


def test_a_tape_is_recorded_again_where_anything_changes_that_recording_runs() -> None:
    """All that a recording has imported is in what its tape is known by; what only pages or commands need is not."""
    said = subprocess.run([sys.executable, "-c", LOADED, SMALL.folder], cwd=paths.ROOT, capture_output=True, text=True)
    loaded = {file for file in map(Path, said.stdout.split("\n")) if file.is_relative_to(paths.ROOT)}
    loaded = {file for file in loaded if file.relative_to(paths.ROOT).parts[0] in ("grader", "solutions")}
    made_of = recorder.sources(SMALL.folder)
    assert len(loaded) > 40 and loaded <= made_of, (said.stderr, loaded - made_of)
    assert not [file for file in made_of if file.is_relative_to(paths.ROOT / "grader" / "cli")]


def test_a_tape_answers_like_the_solutions(built: Path) -> None:
    """Every check comes to the same end with a tape as with the reference, for each wrong way and each other right
    one."""
    tape = Tape(built / "steps" / "core" / SMALL.name / paths.TAPE)
    for way in (*SMALL.misconceptions, *SMALL.variants):
        for check in SMALL.checks:
            for seed in tape.index.seeds:
                student = LocalBackend(SMALL.responder(way.replaced))
                live = run_check(check.function, student, LocalBackend(SMALL.responder()), seed=seed)
                recorded = run_check(check.function, student, tape, seed=seed)
                assert (recorded.status, recorded.message) == (live.status, live.message), f"{way.name} {check.name}"


def test_a_check_that_asks_for_something_else_is_our_fault(built: Path) -> None:
    """It costs nothing: the tape does not fit."""
    tape = Tape(built / "steps" / "core" / SMALL.name / paths.TAPE)

    def test_splitting_by_hand(student: object, reference: LocalBackend, draw: object) -> None:
        reference.merge_everything(1)

    name = SMALL.checks[0].name
    test_splitting_by_hand.__name__ = name
    verdict = run_check(test_splitting_by_hand, LocalBackend(SMALL.responder()), tape, seed=tape.index.seeds[0])
    assert verdict.status == "error"


def test_answers_on_another_device(built: Path) -> None:
    """They stand where the check runs, as the reference's would; what no tensor went into stays on the CPU."""
    tape = Tape(built / "steps" / "core" / "step04_causal_mask" / paths.TAPE)
    for name, place in (("test_agrees_with_fresh_draws", "cuda:0"), ("test_mask_of_any_length", "cpu")):
        tape.draws(name, tape.index.seeds[0], "cuda")
        call = Call(tape.index.checks[name][0].calls[0], (torch.ones(1),) if place != "cpu" else (3,))
        call.options.device = "cuda"
        value = tape.ask(call).value
        assert isinstance(value, PlacedTensor)
        assert value.device == place


# --- used ------------------------------------------------------------------------------------------------------------


def test_stubs_are_to_do(built: Path) -> None:
    """A learner who begins is told where."""
    done = run(built, "grade")
    assert done.returncode == 0, done.stderr
    assert f"0 of {POINTS:g}: start with step01_scores" in done.stdout
    assert "oracle: recorded" not in done.stderr


@pytest.mark.parametrize("seed", ["0", "1"])
def test_references_have_full_marks(built: Path, solved: Path, seed: str) -> None:
    """Under each recorded seed."""
    report = graded(built, solved, "--seed", seed)
    failing = [step["name"] for step in report["steps"] if step["status"] != "pass"]  # type: ignore[attr-defined]
    assert failing == []
    assert (report["score"], report["oracle"], report["seed"]) == (POINTS, "recorded", int(seed))


def test_wrong_files_are_named_as_with_the_solutions(built: Path, grader: Grader, tmp_path: Path) -> None:
    """Check for check the same misconception."""
    for name, (_what, source) in WRONG.items():
        (tmp_path / f"{name}.py").write_text(source)
    live = grader.grade(submissions.read(tmp_path), list(WRONG), device="cpu", seed=recorder.SEEDS[0])
    names = [part for name in WRONG for part in ("--step", name)]
    recorded = graded(built, tmp_path, "--seed", "0", *names)
    assert recorded["oracle"] == "recorded"
    for step, there in zip(live.steps, recorded["steps"], strict=True):  # type: ignore[call-overload]
        named = {check.name: (check.status, check.misconception) for check in step.checks}
        assert {check["name"]: (check["status"], check["misconception"]) for check in there["checks"]} == named
        assert any(misconception for _status, misconception in named.values()), step.name
    both = recorded["steps"][list(WRONG).index("step06_causal_attention")]["checks"][0]  # type: ignore[index]
    assert both["misconception"] == "not_scaled + no_mask"
    assert "Two mistakes were made:\n- The scores went into the softmax" in both["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are not to be had")
def test_a_mask_that_is_upside_down_under_watch(built: Path, tmp_path: Path) -> None:
    """In a fresh kit: step 4 is saved with its mask upside down, and it is read in Korean that the past is hidden and
    the future seen; mended, and the next step comes up."""
    copy = tmp_path / "kit"
    shutil.copytree(built, copy)
    file = copy / "exercises" / "step04_causal_mask.py"
    with Session("exercises", "4", root=copy, KIT_LANG="ko") as session:
        session.until("미작성", "종료")
        file.write_text(WRONG["step04_causal_mask"][1])
        said = "".join(session.until("test_mask_by_hand", "→", "다음 단계", after=len(session.shown)).split())
        assert "과거는가려지고미래가보입니다" in said
        seen = len(session.shown)
        file.write_text(WRONG["step04_causal_mask"][1].replace("<= i[None, :]", ">= i[None, :]"))
        session.until("✓", "step05_dropout", "다음 단계", after=seen)
        session.until("step05_dropout", "미작성", after=session.press("n"))
        session.press("q")
        assert session.ended() == 0


def test_plain_pytest(built: Path, tmp_path: Path) -> None:
    """`pytest` alone has an item for each check of each step; a step that is still a stub is skipped."""
    copy = tmp_path / "kit"
    shutil.copytree(built, copy)
    (copy / "exercises" / "step04_causal_mask.py").write_text(WRONG["step04_causal_mask"][1])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--seed", "0", f"--basetemp={tmp_path}/base"], capture_output=True, text=True,
        cwd=copy, timeout=300, env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert "steps/core/step04_causal_mask/test_causal_mask.py F" in done.stdout, done.stdout + done.stderr
    assert "the past was hidden, and the future was seen" in done.stdout
    assert re.search(r"\d+ failed, \d+ passed, \d+ skipped", done.stdout)
    assert f"4 of {POINTS:g} points · seed 0" in done.stdout


def test_korean_and_the_page(built: Path, tmp_path: Path) -> None:
    """The report names the recording, in the terminal and as a page; the diagnosis is in Korean."""
    (tmp_path / "step04_causal_mask.py").write_text(WRONG["step04_causal_mask"][1])
    page = tmp_path / "report.html"
    done = run(built, "grade", "--submission", str(tmp_path), "--step", "4", "--html", str(page), KIT_LANG="ko")
    assert done.returncode == 0, done.stderr
    assert "진단" in done.stdout
    assert "기록본" in done.stdout
    assert "기록본" in page.read_text(encoding="utf-8")
    assert "<svg" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("spoken", ["en", "ko"])
def test_the_page_of_the_course(built: Path, tmp_path: Path, spoken: str) -> None:
    """`make course` where no reference's source is: each lesson with its pictures, a verdict, what was built after
    green, a lab, and a look inside a GPT that is the kit's own."""
    copy = tmp_path / "kit"
    shutil.copytree(built, copy)
    step = SMALL.name
    session = Session("exercises", command="course", terminal=False, root=copy, BROWSER="true", KIT_LANG=spoken)
    with session:
        page = Asked(session)
        assert b"/assets/course.js" in page.get("/")
        for name in (folder.name for folder in sorted((copy / "steps").glob("*/step*"))):
            assert "<svg" in page.get(f"/data/lesson/{name}")["html"], name
        page.until(f"/data/verdict/{step}", "status todo")
        assert page.get(f"/data/built/{step}") == {"html": ""}
        (copy / "exercises" / f"{step}.py").write_text(SMALL.solved(), encoding="utf-8")
        page.until(f"/data/verdict/{step}", "status pass")
        assert "<svg" in page.get(f"/data/built/{step}")["html"]
        assert page.get(f"/data/solution/{step}") == {"html": ""}
        assert page.get("/data/lab/scale")["answers"]
        assert page.post("/data/explore/about", {}).endswith(b"}")
        looked = page.post(
            "/data/explore/look", {"view": {"text": "Theo put the red kite in the", "weights": "kit-en"}}
        )
        assert b'"tokens"' in looked and b'"error"' not in looked
        written = page.post("/data/explore/write", WRITE).decode().splitlines()
        assert len(written) == WRITE["count"] and all(json.loads(line)["text"] for line in written)


def test_hints_lessons_and_the_way_back(built: Path, tmp_path: Path) -> None:
    """They need no solution."""
    assert "1" in run(built, "hint", "4", "--submission", str(tmp_path)).stdout
    assert run(built, "lesson", "4").returncode == 0
    file = tmp_path / "step04_causal_mask.py"
    file.write_text("mine = 1\n")
    assert run(built, "reset", "4", "--submission", str(tmp_path)).returncode == 0
    assert file.read_text(encoding="utf-8") == (built / "exercises" / file.name).read_text(encoding="utf-8")


def test_an_author_is_told_that_the_solutions_are_not_there(built: Path) -> None:
    """One line, and what to type."""
    for command in (["kit"], ["record"], ["exercises", "--solved"]):
        done = run(built, *command)
        assert (done.returncode, done.stderr) == (2, "This copy of the kit has no solutions. Type: make grade\n")


def test_a_tape_gives_away_answers_and_no_code(built: Path) -> None:
    """By the line of docs/security.md, which says the same in Korean: what comes out are tensors, among them the
    answers under a recorded seed, and in none of them a line of the reference."""
    documents = [(paths.ROOT / "docs" / f"security{end}").read_text("utf-8") for end in (".md", ".ko.md")]
    english, korean = (LINE.findall(document) for document in documents)
    assert english == korean and len(english) == 1
    file = built / "steps" / "core" / SMALL.name / paths.TAPE
    told = eval(english[0], {"Tape": Tape, "file": file})
    assert told and all(type(value) is torch.Tensor for value in told.values())
    oracle = recorder._RecordedOracle(SMALL)
    for check in SMALL.checks:
        run_check(check.function, LocalBackend(SMALL.responder()), oracle, seed=recorder.SEEDS[0])
    answers: dict[str, torch.Tensor] = {}
    for _name, outcome in oracle.answered:
        packed_outcome(outcome, answers)
    assert answers
    for answer in answers.values():
        assert any(value.dtype == answer.dtype and torch.equal(value, answer) for value in told.values())
    held = [value.contiguous().flatten().view(torch.uint8).numpy().tobytes() for value in told.values() if len(value)]
    lines = solution_lines(SMALL)
    assert lines and not [line for line in lines if any(line.encode() in data for data in held)]


@pytest.mark.parametrize("line", ["file.read_bytes()", "Tape(file)._tensors"])
def test_learners_code_can_not_read_the_tape(built: Path, tmp_path: Path, line: str) -> None:
    """Where the system has a layer against it; what reads one can't be imported there."""
    tape = built / "steps" / "core" / "step01_scores" / paths.TAPE
    source = f"import pathlib\nfile = pathlib.Path({str(tape)!r})\n"
    if "Tape" in line:
        source += "from grader.oracle.tape import Tape\n"
    (tmp_path / "step01_scores.py").write_text(f"{source}data = {line}\n")
    report = graded(built, tmp_path, "--step", "1")
    if "landlock" not in report["isolation"]:  # type: ignore[operator]
        pytest.skip("no Landlock here")
    left_out = " ".join(report["notes"])  # type: ignore[arg-type]
    # In a file tree of its own the file is not there at all.
    expected = ("ImportError", "ModuleNotFoundError") if "Tape" in line else ("PermissionError", "FileNotFoundError")
    assert any(error in left_out for error in expected), left_out
    assert report["score"] == 0


@pytest.mark.parametrize("damage", ["another version", "missing", "not a tape"])
def test_a_tape_of_another_version_is_refused(built: Path, tmp_path: Path, damage: str) -> None:
    """In one line that ends in what to type, before anything runs."""
    copy = tmp_path / "kit"
    shutil.copytree(built, copy)
    tape = copy / "steps" / "core" / "step04_causal_mask" / paths.TAPE
    if damage == "another version":
        version = copy / "grader" / "__init__.py"
        version.write_text(re.sub(r'"[\d.]+"', '"9.9.9"', version.read_text()))
    elif damage == "missing":
        tape.unlink()
    else:
        tape.write_bytes(b"\xff" * 100)
    done = run(copy, "grade")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("then type: make grade\n")


def test_a_link_out_of_the_course_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of others may hold a link in place of its lesson."""
    course = tmp_path / "course"
    course.mkdir()
    (tmp_path / "secret").write_text("s")
    (course / "lesson.en.md").symlink_to(tmp_path / "secret")
    (course / "lesson.ko.md").write_text("k")
    (course / "own.md").symlink_to(course / "lesson.ko.md")
    monkeypatch.setattr(kit, "ROOT", course)
    with pytest.raises(recorder.NotRecorded, match="lesson.en.md leads out of the course"):
        kit._copy(course / "lesson.en.md", tmp_path / "out" / "lesson.en.md")
    kit._copy(course / "own.md", tmp_path / "out" / "own.md")
    assert [(file.name, file.read_text()) for file in (tmp_path / "out").iterdir()] == [("own.md", "k")]
