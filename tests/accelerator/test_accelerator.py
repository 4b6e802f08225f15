"""The kit on a simulated accelerator: every check, the device's rules, and the paths that only an accelerator takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.base.paths import ROOT
from grader.course import exercises
from tests.accelerator import plugged_in, simulated
from tests.whole import WHOLE, sample

pytestmark = [
    pytest.mark.skipif(not simulated.is_possible(), reason="this torch lets only C++ define a device"),
    pytest.mark.thorough,
]

# Right on an accelerator, and refused on this one: a lazy layer's parameter is not made of numbers when it moves.
OF_THE_SIMULATION = {("step03_attention", "width_from_the_first_tokens")}
CPU_MASK = """
import torch
def causal_mask(num_tokens, device=None):
    return torch.ones(num_tokens, num_tokens, device=device).tril().bool()
def masked_softmax(scores, mask):
    {body}
"""
ONLY_THERE = """

_attention = attention
def attention(query, *more, **named):
    assert query.device.type == "sim"
    return _attention(query, *more, **named)
"""
EXPLORED = """
import json, sys
from pathlib import Path
from grader.base import paths
from grader.web.explore_process import GPTProcess
folder, device = sys.argv[1:]
right = frozenset(one.name for one in paths.step_folders() if one.name < "step13")
process = GPTProcess(Path(folder), lambda: right, device)
plain = {"text": "Mina had a red ball.", "weights": "kit-en"}
changes = {}, {"mask": False}, {"flash": True}, {"dropout": 0.2}, {"positions": False}, {"trained": False}
said = {"about": process.ask({"ask": "about"})[0], "looks": []}
for change in changes:
    view = plain | change
    said["looks"].append({"view": view} | process.ask({"ask": "look", "view": view})[0])
    process.ask({"ask": "layer", "view": view, "layer": 0})
said["each"] = process.ask({"ask": "each", "view": plain, "layer": 0})[0]
asked = {"ask": "next", "view": plain, "ids": [], "temperature": 1.0, "top_k": 5, "top_p": 0.9}
said["following"] = process.ask(asked)[0]
process.close()
print(json.dumps(said))
"""
RIGHT = "return scores.masked_fill(~mask, -torch.inf).softmax(-1)"


def swept(what: str, steps: str, *more: str) -> list[dict[str, str]]:
    """What a sweep over these steps finds: in a process of its own, since a device is there for good."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.accelerator.sweep", what, steps, *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


RIGHT_PARTS = ["1-7", "8-10", "11-12", "13-18", "19-20", "21", "22", "23", "24", "25-26", "27", "28"]


@pytest.mark.parametrize("steps", sample(RIGHT_PARTS))
def test_what_is_right_passes_every_check(steps: str) -> None:
    """References, and where everything is tried variants too; every reference is graded there by `make cuda` below."""
    refused = swept("right", steps, *([] if WHOLE else ["0"]))
    assert [one for one in refused if (one["step"], one["who"]) not in OF_THE_SIMULATION] == []


def test_what_stays_on_the_cpu_is_refused() -> None:
    """As on `meta`, which stands for an accelerator in every run."""
    looked_at = swept("left_behind", "1-28" if WHOLE else "1-20")
    assert len({one["step"] for one in looked_at}) > 8
    assert [one for one in looked_at if one["refused"] != "True"] == []


@pytest.mark.exhaustive
def test_memory_outside_of_torch_is_seen_there() -> None:
    """The simulation's own tensors are Python's, and do not count; a matrix of scores in an array or a list does."""
    looked_at = swept("outside_torch", "10")
    assert looked_at
    assert [one for one in looked_at if one["refused"] != "True"] == []


def test_rounded_products_would_be_refused() -> None:
    """A convolution as cuDNN makes it unless told not to: step 23's right way with one fails where TF32 is on. The
    setting of our processes lets it pass above."""
    assert any("conv" in one["who"] for one in swept("loosened", "23"))


def test_a_file_can_not_loosen_the_products() -> None:
    """What many files say for speed, at the top or in the middle of a call, changes nothing in our processes."""
    code = """
import torch
from grader.sandbox import preload
preload.load_torch()
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
torch.set_float32_matmul_precision("medium")
with torch.backends.cudnn.flags(allow_tf32=True):
    assert not torch.backends.cudnn.allow_tf32
assert not torch.backends.cuda.matmul.allow_tf32
assert not torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
assert torch.get_float32_matmul_precision() == "highest"
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_rules_of_the_device() -> None:
    """What CUDA refuses is refused in its words, and what it allows passes."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.accelerator.rules"], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-2000:]


# --- the whole way, from the command line -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose torch has the device."""
    return plugged_in.make(tmp_path_factory.mktemp("plugged"))


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All references as a submission."""
    folder = tmp_path_factory.mktemp("solved") / "solved"
    exercises.write_solved(folder)
    return folder


@pytest.fixture
def step4(tmp_path: Path) -> Iterator[Any]:
    """Writes a step 4 with this body of masked_softmax."""

    def write(body: str) -> Path:
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / "step04_causal_mask.py").write_text(CPU_MASK.format(body=body), encoding="utf-8")
        return tmp_path / "mine"

    yield write


def graded(python: Path, submission: Path, *words: str) -> dict[str, Any]:
    """The report of one grade."""
    command = [python, "-m", "grader", "grade", "--submission", submission, "--json", "-", "--lang", "en", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_grade_uses_the_cpu_and_the_accelerator_that_is_there(python: Path, solved: Path) -> None:
    """`all`, the default, is both, by torch's own name; a backward pass too, since accelerators are hidden from what is
    graded on the CPU."""
    report = graded(python, solved, "--step", "4", "--step", "12")
    assert report["devices"] == {"cpu": "checked", "sim": "checked"}
    checks = [check for step in report["steps"] for check in step["checks"]]
    assert {check["device"] for check in checks} == {"cpu", "sim"}
    assert {check["status"] for check in checks} == {"pass"}, [one["message"] for one in checks]
    assert report["isolation"] == ["process", "limits"]


def test_a_device_that_is_not_there(python: Path, solved: Path) -> None:
    """Any name that torch may know is taken; it is said that there is none, and nothing is graded."""
    report = graded(python, solved, "--step", "4", "--device", "xpu")
    assert report["devices"]["xpu"] == "not available"
    assert report["steps"][0]["status"] == "skipped"


def test_points_need_every_device(python: Path, step4: Any) -> None:
    """Right on the CPU and wrong on the accelerator earns nothing: a mask of one's own stays behind."""
    mine = step4("return scores.masked_fill(~mask.cpu(), -torch.inf).softmax(-1)")
    report = graded(python, mine, "--step", "4")
    checks = report["steps"][0]["checks"]
    failed = {check["name"] for check in checks if check["status"] == "fail"}
    assert failed
    assert {check["device"] for check in checks if check["status"] == "fail"} <= {"sim", "cpu"}
    assert all(check["points"] == 0 for check in checks if check["name"] in failed)
    said = next(check["message"] for check in checks if check["status"] == "fail" and check["device"] == "sim")
    assert "same device" in said


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("torch.sim.lost = scores.device.type == 'sim' and scores.dim() > 3; " + RIGHT, "the device was lost"),
        ("torch.empty(1 << 40 if scores.device.type == 'sim' else 1, device=scores.device); " + RIGHT, "memory"),
    ],
    ids=["lost", "out of memory"],
)
def test_a_device_that_fails_in_the_middle(python: Path, step4: Any, body: str, words: str) -> None:
    """The check fails in the learner's code, in words; the grader goes on."""
    report = graded(python, step4(body), "--step", "4")
    failing = [
        check for check in report["steps"][0]["checks"] if check["status"] == "fail" and check["device"] == "sim"
    ]
    assert any(words in check["message"] for check in failing), failing


def test_where_forking_is_unsound_programs_are_started(tmp_path: Path, solved: Path) -> None:
    """A driver that starts with the import: judge and workers are processes of their own, with the same verdict."""
    in_use = plugged_in.make(tmp_path / "in_use", in_use=True)
    report = graded(in_use, solved, "--step", "1", "--device", "sim")
    assert report["score"] == report["max_score"] == 6


def test_the_same_seed_draws_the_same_there(python: Path, solved: Path) -> None:
    """The generators of all devices are seeded: two runs of one seed are equal."""
    one, other = (
        graded(python, solved, "--step", "5", "--device", "sim", "--seed", "7")["steps"] for _time in range(2)
    )
    for step in (*one, *other):
        step.pop("seconds")
    assert one == other


def run(python: Path, *words: str, cwd: Path = ROOT) -> str:
    """What one command of the kit prints."""
    done = subprocess.run(
        [python, "-m", "grader", *words], capture_output=True, text=True, cwd=cwd, env=os.environ | {"KIT_LANG": "en"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_class_is_graded_there(python: Path, solved: Path, tmp_path: Path) -> None:
    """One student on both devices."""
    (tmp_path / "submissions" / "ada").mkdir(parents=True)
    text = (solved / "step01_scores.py").read_text(encoding="utf-8")
    (tmp_path / "submissions" / "ada" / "step01_scores.py").write_text(text, encoding="utf-8")
    run(python, "class", str(tmp_path / "submissions"), "--step", "1", "--out", str(tmp_path / "results"))
    assert "6" in (tmp_path / "results" / "marks.csv").read_text(encoding="utf-8-sig")


def test_repro_makes_the_failing_call_there(python: Path, step4: Any) -> None:
    """The program moves its inputs to the device."""
    mine = step4("return scores.masked_fill(~mask.cpu(), -torch.inf).softmax(-1)")
    said = run(python, "repro", "4", "--submission", str(mine), "--device", "sim", "--write-only")
    assert ".py" in said


@pytest.mark.exhaustive
def test_what_only_a_gpu_shows_ends_with_a_page(python: Path, tmp_path: Path) -> None:
    """`make cuda` on this device: every part, in little. The kernel of step 29 has no driver here, which is a line."""
    command = [python, "-m", "tools.cuda", "--device", "sim", "--quick", "--seconds", "60", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert "Traceback" not in done.stderr
    assert "Simulated accelerator" in done.stderr.splitlines()[0]
    assert "TF32 off" in done.stderr.splitlines()[0]
    (page,) = tmp_path.glob("*.en.html")
    found = json.loads(page.with_name(page.name.replace(".en.html", ".json")).read_text(encoding="utf-8"))
    assert found["failed"] == []
    others = [one for one in found["graded"] if one["step"] != "step29_triton"]
    assert others and {one["status"] for one in others} <= {"pass", "skipped"}
    assert found["halves"]["overflow"]["parameters_kept"]


def test_watch_grades_there(python: Path, solved: Path) -> None:
    """Its first verdict; explore and the course's page have the same session."""
    command = [
        python,
        "-m",
        "grader",
        "watch",
        "--step",
        "1",
        "--submission",
        solved,
        "--device",
        "sim",
        "--lang",
        "en",
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=ROOT) as session:
        assert session.stdout is not None
        said = ""
        while "6 of 6" not in said and "6 / 6" not in said and (line := session.stdout.readline()):
            said += line
        session.terminate()
    assert "6 of 6" in said or "6 / 6" in said, said


def test_explore_computes_there_and_says_so(python: Path, solved: Path, tmp_path: Path) -> None:
    """By the process that the page asks; a step of the learner's that fails anywhere else shows that nothing is
    computed on the CPU. The numbers are the CPU's."""
    shutil.copytree(solved, tmp_path / "mine")
    with (tmp_path / "mine" / "step03_attention.py").open("a", encoding="utf-8") as file:
        file.write(ONLY_THERE)
    there, here = (
        json.loads(
            subprocess.run(
                [python, "-W", "ignore", "-c", EXPLORED, str(folder), device],
                check=True,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            ).stdout
        )
        for folder, device in ((tmp_path / "mine", "all"), (solved, "cpu"))
    )
    assert (there["about"]["device"], here["about"]["device"]) == ("Simulated accelerator", "cpu")
    assert there["about"]["whose"] == dict.fromkeys(there["about"]["whose"], "yours")
    assert [one.get("error") for one in there["looks"]] == [None] * 6
    assert len(there["each"]["effects"]) == len(here["each"]["effects"]) > 1
    for one, other in zip(there["looks"], here["looks"]):
        if "dropout" not in one["view"]:  # which draws from the device's own generator
            assert one["loss"] == pytest.approx(other["loss"], abs=2e-3)
    assert there["following"]["ids"]


@pytest.mark.exhaustive
def test_labs_and_training_run_there(python: Path, tmp_path: Path) -> None:
    """A lab with figures from the device, and a few steps of training; a checkpoint brings its random numbers along."""
    run(python, "lab", "flash", "--device", "sim", "--seconds", "3", "--predict", "1", "--model", "kit", cwd=ROOT)
    out = tmp_path / "train"
    for more in ((), ("--resume",)):
        run(python, "train", "--device", "sim", "--steps", "2", "--out", str(out), "--model", "kit", *more)
    assert list(out.iterdir())
