"""Two doors, one verdict: what `pytest` says of a submission is what `make grade` says."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.base.paths import EXERCISES, ROOT
from grader.base.results import Report, StepResult
from grader.course import steps, submissions
from grader.course.check_outline import outline
from grader.judge.grader import Grader
from grader.report.terminal import plain
from tests.author.test_kit import WRONG
from tests.hostile import Attack

CORE = "solutions/core"
SITUATIONS = ROOT / "tests" / "situations"
ATTACKS = ROOT / "tests" / "attacks"
SEED = 3
OUTCOMES = {"pass": "passed", "fail": "failed", "timeout": "failed", "error": "error", "skipped": "skipped"}
HALF_WRITTEN = "def split_heads(x, num_heads):\n    raise NotImplementedError\n\ndef merge_heads(x):\n    return x\n"
OFF_LIMITS = "import torch\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"


@dataclass(frozen=True)
class Case:
    """One test case of a JUnit file."""

    outcome: str
    text: str
    properties: dict[str, str]


def run(*arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, as it is typed; its cache and its temporary files are kept out of the way."""
    kept = ["-p", "no:cacheprovider"] if cache is None else ["-o", f"cache_dir={cache}"]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [sys.executable, "-m", "pytest", *kept, f"--basetemp={folder}/base", *arguments],
            capture_output=True, text=True, cwd=ROOT, timeout=300,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "COLUMNS": "120"},
        )  # fmt: skip


def cases(junit: Path) -> dict[tuple[str, str], Case]:
    """The test cases of a JUnit file, by step and name."""
    found: dict[tuple[str, str], Case] = {}
    for case in ET.parse(junit).getroot().iter("testcase"):
        told = {child.tag: f"{child.get('message')}\n{child.text}" for child in case}
        outcome = next((word for tag, word in TAGS.items() if tag in told), "passed")
        properties = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
        step = case.attrib["classname"].split(".")[2]
        found[step, case.attrib["name"]] = Case(outcome, "\n".join(told.values()), properties)
    return found


TAGS = {"error": "error", "failure": "failed", "skipped": "skipped"}


def through_pytest(folder: Path, to: Path, *arguments: str) -> dict[tuple[str, str], Case]:
    """The cases of a run on the submission in `folder`."""
    junit = to / "junit.xml"
    done = run(
        "-q", "--submission", str(folder), "--seed", str(SEED), "--device", "cpu", "--junitxml", str(junit), *arguments
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return cases(junit)


def require_the_same(found: dict[tuple[str, str], Case], report: Report) -> None:
    """Check for check: the outcome, the points, the diagnosis and every word."""
    expected = {(step.name, check.name): (step, check) for step in report.steps for check in step.checks}
    assert list(found) == list(expected)
    for place, (step, check) in expected.items():
        case = found[place]
        outcome = "skipped" if check.status == "todo" else OUTCOMES[check.status]
        assert (case.outcome, case.properties["status"]) == (outcome, check.status), place
        if step.score is None:  # no mark yet: a person must look
            assert "points" not in case.properties, place
        else:
            assert float(case.properties["points"]) == pytest.approx(check.points), place
            assert float(case.properties["max_points"]) == pytest.approx(check.max_points), place
        assert case.properties.get("misconception") == check.misconception, place
        if check.status != "pass":
            told = [check.title, check.message or step.message, check.hint or ""]
            assert all(plain(words) in case.text for words in told), (place, case.text, told)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of everything: right, off limits, hostile, wrong, to do, missing, half written, blocked."""
    folder = tmp_path_factory.mktemp("mixed") / "exercises"
    folder.mkdir()
    blocked = SITUATIONS / "blocked_by_an_earlier_step"
    sources = {
        "step01_scores": next(step for step in steps.steps() if step.number == 1).solved(),
        "step02_softmax": OFF_LIMITS,
        "step03_attention": "import os\n\ndef attention(query, key, value, mask=None):\n    os._exit(0)\n",
        "step04_causal_mask": WRONG["step04_causal_mask"][1],
        "step05_dropout": (EXERCISES / "step05_dropout.py").read_text(encoding="utf-8"),
        "step06_causal_attention": (blocked / "step06_causal_attention.py").read_text(encoding="utf-8"),
        "step07_heads": HALF_WRITTEN,
        "step08_multi_head": (blocked / "step08_multi_head.py").read_text(encoding="utf-8"),
    }
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    (folder / "step09_fused_qkv.py").write_bytes(b"# caf\xe9\n")
    return folder


def test_every_kind_of_submission(mixed: Path, grader: Grader, tmp_path: Path) -> None:
    """Right, wrong, off limits, hostile, half written, to do, missing, blocked and unusable: every step of the core."""
    found = through_pytest(mixed, tmp_path, CORE)
    report = grader.grade(submissions.read(mixed), core(), device="cpu", seed=SEED)
    require_the_same(found, report)
    statuses = {step.name: step.status for step in report.steps}
    assert statuses["step01_scores"] == "pass"
    assert statuses["step08_multi_head"] == "skipped"
    assert {statuses["step05_dropout"], statuses["step12_gpt"]} == {"todo"}
    assert found["step04_causal_mask", "test_mask_by_hand"].properties["misconception"] == "future_instead_of_past"
    assert "process" in found["step01_scores", "test_scores_by_hand"].properties["isolation"]


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ["forge_patched_pytest", "forge_always_equal", "end_exits"])
def test_hostile_submissions(attack: str, grader: Grader, tmp_path: Path) -> None:
    """Neither door can be talked into a mark."""
    folder = tmp_path / "exercises"
    folder.mkdir()
    hostile = Attack(ATTACKS / f"{attack}.py")
    name = hostile.step
    (folder / f"{name}.py").write_text(hostile.source, encoding="utf-8")
    found = through_pytest(folder, tmp_path, f"{CORE}/{name}")
    require_the_same(found, grader.grade(submissions.read(folder), [name], device="cpu", seed=SEED))


def core() -> list[str]:
    """The steps of the core."""
    return [step.name for step in steps.steps() if step.track == "core"]


@pytest.mark.exhaustive
@pytest.mark.thorough
def test_workers_of_xdist_share_the_seed_and_the_steps(mixed: Path, tmp_path: Path) -> None:
    """With -n 2 the verdicts are the same, and a step is graded by one worker."""
    some = [f"{CORE}/step04_causal_mask", f"{CORE}/step01_scores"]
    alone, shared = (through_pytest(mixed, tmp_path, *some, *more) for more in ((), ("-n", "2")))
    assert dict(sorted(alone.items())) == dict(sorted(shared.items()))
    done = run("-n", "2", "-v", "--submission", str(mixed), *some)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("[gw") and "::" in line]
    workers = {(worker, words[-1].partition("::")[0]) for worker, *words in lines}
    assert len(workers) == 2, "each step on one worker"
    (line,) = [line for line in done.stdout.splitlines() if " points · seed " in line]
    assert line.startswith("10 of 14 points")


@pytest.mark.thorough
def test_options_of_pytest(mixed: Path, tmp_path: Path) -> None:
    """-x stops at the first refusal, --lf runs what was refused, -k picks by name, in text without a traceback."""
    step = [f"{CORE}/step04_causal_mask", "--submission", str(mixed), "--seed", "3"]
    first = run(*step, "-x", "-k", "by_hand or length", cache=tmp_path)
    assert "1 failed" in first.stdout
    assert "1 of 1 points" not in first.stdout
    assert "the past was hidden, and the future was seen" in first.stdout
    assert "pytest_plugin.py" not in first.stdout
    again = run(*step, "--lf", cache=tmp_path)
    assert "1 failed" in again.stdout
    assert "passed" not in again.stdout


def test_collecting_is_light(tmp_path: Path) -> None:
    """Items are known without torch and without the sandbox: what the test explorer of an editor waits for."""
    code = (
        "import pytest, subprocess, sys\n"
        "subprocess.Popen = None\n"
        "assert not pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', 'solutions/core'])\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert not done.returncode, done.stdout + done.stderr
    listed = [line for line in done.stdout.splitlines() if "::" in line]
    assert listed == [
        f"{step.check_file.relative_to(ROOT).as_posix()}::{check.name}"
        for step in steps.steps()
        if step.track == "core"
        for check in step.checks
    ]


@pytest.mark.parametrize("step", steps.steps(), ids=lambda step: step.name)
def test_checks_read_as_text_are_those_that_run(step: steps.Step) -> None:
    """Names, titles and points, in order."""
    read = [(check.name, check.title, check.points) for check in outline(step.check_file)]
    assert read == [(check.name, check.title, check.points) for check in step.checks]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--submission", "nowhere"], "There is no folder nowhere. Type: pytest --submission FOLDER"),
        (["--lang", "fr"], "There is no language fr here, only en, ko. Type: pytest --lang en"),
        (["--seed", "one"], "one is not an integer from 0 to 9007199254740992"),
        (["--device", "tpu!"], "a device is named as torch names it"),
    ],
)
def test_options_that_can_not_be_met(options: list[str], said: str) -> None:
    """One line, before anything runs."""
    done = run(f"{CORE}/step01_scores", *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_electives_are_left_out_until_they_are_begun(mixed: Path, tmp_path: Path) -> None:
    """As `make grade` does, unless the command line names them."""
    electives = [step for step in steps.steps() if step.track != "core"]
    if not electives:
        pytest.skip("there is none")
    name, track = electives[0].name, electives[0].track
    every = run("--collect-only", "-q", "solutions", "--submission", str(mixed))
    assert "solutions/core/step12_gpt/" in every.stdout
    assert f"{name}/" not in every.stdout
    assert f"{name}/" in run("--collect-only", "-q", f"solutions/{track}", "--submission", str(mixed)).stdout
    (tmp_path / f"{name}.py").write_text("begun = True\n", encoding="utf-8")
    assert f"{name}/" in run("--collect-only", "-q", "solutions", "--submission", str(tmp_path)).stdout


@pytest.mark.thorough
def test_korean(mixed: Path) -> None:
    """--lang reaches the diagnosis."""
    done = run(f"{CORE}/step04_causal_mask", "--lang", "ko", "--submission", str(mixed), "-k", "mask_by_hand")
    assert "과거는 가려지고 미래가 보입니다" in done.stdout


@pytest.mark.thorough
def test_a_step_that_prints(grader: Grader, tmp_path: Path) -> None:
    """What the code printed stands below the first refusal."""
    folder = tmp_path / "exercises"
    folder.mkdir()
    source = "print('reached')\n\ndef dot_product_scores(query, key):\n    return query\n"
    (folder / "step01_scores.py").write_text(source, encoding="utf-8")
    done = run(f"{CORE}/step01_scores", "--submission", str(folder))
    result: StepResult = grader.grade(submissions.read(folder), ["step01_scores"], device="cpu", seed=1).steps[0]
    assert result.output.strip() == "reached"
    assert done.stdout.count("\nreached\n") == 1
