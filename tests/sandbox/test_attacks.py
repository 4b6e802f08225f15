"""Every submission in `attacks/` has the outcome that its header names, and leaves the grader as it was."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from grader.base.limits import Limits
from grader.course import choice
from grader.course.submissions import Submission
from grader.judge.grader import ROOT, Grader
from grader.oracle.live import solutions
from grader.sandbox.kernel import LAYERS
from tests import hostile
from tests.hostile import GOOD, LIMITS, PATIENT, SEED, STEP, Attack, descendants, one_file, zygote_pid
from tests.whole import sample

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")


@pytest.fixture(scope="module")
def warm() -> Iterator[Grader]:
    """One grader for all attacks, started with a secret in its environment."""
    os.environ["KIT_TEST_SECRET_TOKEN"] = "1"
    with Grader(1, LIMITS) as grader:
        layers = grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").isolation
        if os.geteuid() == 0 and not {"landlock", "seccomp"} <= set(layers):
            pytest.skip("as root and without the layers of this system an attack could harm the machine")
        yield grader
    del os.environ["KIT_TEST_SECRET_TOKEN"]


# All that is honest, and of the rest a sample.
TRIED = [one for one in hostile.attacks() if one.is_honest] + [
    one for one in sample(hostile.attacks()) if not one.is_honest
]

ABOUT_ANSWERS = ("forge", "honest", "trust", "borrow", "change")
RIGHT = {step.name: step.solved for step in solutions()} | {STEP: lambda: GOOD}
UNWRITTEN = "answer = None\n"


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.name)
def test_attack(attack: Attack, warm: Grader) -> None:
    """Its own outcome, in time, and nothing is left of it: a good submission is graded right afterwards."""
    wrong = hostile.tried(attack, warm, PATIENT) if attack.is_honest else hostile.tried_in_short(attack, warm, LIMITS)
    assert wrong == []
    warm.limits = PATIENT
    (good,) = warm.grade(one_file(STEP, GOOD), [STEP], device="cpu", seed=4).steps
    assert good.status == "pass"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "attack", [each for each in TRIED if each.name.startswith(ABOUT_ANSWERS)], ids=lambda attack: attack.name
)
def test_attack_under_a_seed_that_was_judged(attack: Attack, warm: Grader) -> None:
    """The same where messages and right answers are known, by which an answer that is bit for bit right has a verdict;
    and what is known afterwards is as true as before."""
    for is_over in (False, True):
        warm.limits = PATIENT
        for source, status in ((RIGHT[attack.step](), "pass"), (UNWRITTEN, "fail")):
            (step,) = warm.grade(one_file(attack.step, source), [attack.step], device="cpu", seed=SEED).steps
            assert step.status == status
        if not is_over:
            limits = PATIENT if attack.is_honest else LIMITS
            assert hostile.tried_in_short(attack, warm, limits) == []


MINE = GOOD.replace("def softmax", "def mine") + "def softmax(x, dim=-1):\n    "
# With the bits of a right answer, and something besides that its verdict depends on.
BESIDES = {
    "a built-in": "import torch\n" + MINE + "torch.softmax(x, dim)\n    return mine(x, dim)\n",
    "a built-in when calls follow at once": "import time, torch\nlast = [0.0]\n"
    + MINE
    + "before, last[0] = last[0], time.monotonic()\n"
    + "    return torch.softmax(x, dim) if last[0] - before < 0.002 else mine(x, dim)\n",
    "a changed input": MINE + "answer = mine(x, dim)\n    x.data.mul_(2)\n    return answer\n",
    "a changed answer of before": "kept = []\n"
    + MINE
    + "[each.data.zero_() for each in kept]\n    kept.append(mine(x, dim))\n    return kept[-1]\n",
    "a class of its own": "import torch\nclass T(torch.Tensor): pass\n" + MINE + "return mine(x.as_subclass(T), dim)\n",
    "an end": "import os\n" + MINE + "Last()\n    return mine(x, dim)\n"
    "class Last:\n    def __del__(self): os._exit(0)\n",
}


@pytest.mark.parametrize("besides", BESIDES)
def test_known_bits_hide_nothing(warm: Grader, besides: str) -> None:
    """Under a seed that was judged as under another one."""
    warm.limits = PATIENT
    found = []
    for known in (SEED, SEED + 1):
        assert warm.grade(one_file(STEP, GOOD), [STEP], device="cpu", seed=known).steps[0].status == "pass"
        (step,) = warm.grade(one_file(STEP, BESIDES[besides]), [STEP], device="cpu", seed=SEED).steps
        found.append((step.status, step.score, [check.status for check in step.checks]))
    assert found[0] == found[1] and found[0][0] == "fail"


def test_layers_are_reported(warm: Grader) -> None:
    """The report names what was in force."""
    report = warm.grade(one_file(STEP, GOOD), [STEP], device="cpu")
    assert report.isolation[:2] == ["process", "limits"]
    assert set(report.isolation) <= set(LAYERS)


@pytest.mark.thorough
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="these tests already run as an ordinary user"
)
def test_attacks_as_an_ordinary_user() -> None:
    """The same as a user without any privilege."""
    try:
        hostile.require_ordinary_user()
    except hostile.NoOtherUser as error:
        pytest.skip(f"no process of another user can be started: {error}")
    attacks = [f"{__file__}::test_attack[{attack.name}]" for attack in sample(TRIED, 2)]
    attacks.append(f"{__file__}::test_layers_are_reported")
    parts = [attacks[start::4] for start in range(4)]  # side by side, for time's sake: most wait for a deadline
    running = [
        subprocess.Popen(
            hostile.as_an_ordinary_user([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *part]),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
            env=os.environ | {"HOME": "/nonexistent"},
        )
        for part in parts
    ]  # fmt: skip
    for part, said in zip(running, [part.communicate()[0] for part in running], strict=True):
        assert part.returncode == 0, said[-3000:]


# Goes at the end of every right solution: from there on the process answers now and then what it likes.
LIAR = """
import random as _random, numpy as _numpy, torch as _torch
_responder, _Opaque = found("grader.calls.responder"), found("grader.calls.transfer").Opaque
_HandleId, _Placed = _responder.HandleId, _responder.PlacedTensor
_rng = _random.Random({seed})
_float = lambda *shape, **how: _Placed(_torch.zeros(*shape, **how), "cpu")
_values = [
    None, True, -1, 2**62, 1.5, float("nan"), "text", _HandleId(1), _HandleId(-3), _Opaque("thing"), (), (None,),
    _float(3), _float(0), _float(2, 3), _float(1, 0, 3), _float(4, dtype=_torch.int64), _float(2, dtype=_torch.bool),
    _Placed(_torch.tensor(float("nan")), "nowhere"), _Placed(_torch.empty(2, 3, device="meta"), "meta"),
    _numpy.ones((2, 3), _numpy.float32), _numpy.ones(3)[None], _numpy.zeros((0, 2), bool), 1 << 4000, -(1 << 70),
    {{"a": {{"b": (_float(2), _numpy.ones(1))}}, "": None}}, {{}},
    dict(missing=5, extra=None, misshapen=["x"]), dict(weight=_float(2)), (_float(1), _float(1)),
]
_respond = _responder.Responder.respond

def _lie(self, call):
    outcome = _respond(self, call)
    if _rng.random() < {share}:
        lie = _rng.randrange(4)
        if lie == 0:
            outcome.gradients = {{}}
        elif lie == 1:
            outcome.gradients = {{name: _rng.choice([None, _float(2, 1)]) for name in outcome.gradients}}
        else:
            outcome.raised, outcome.value = None, _rng.choice(_values)
    return outcome

changeable(_responder.Responder).respond = _lie
"""


@pytest.mark.thorough
@pytest.mark.parametrize("share", sample([0.5, 0.05, 1.0]))
def test_a_lie_is_never_taken_for_our_fault(warm: Grader, share: float) -> None:
    """Whatever a process answers in whichever step: a fault of ours costs nothing, so that none may be provoked."""

    warm.limits = PATIENT
    found = (hostile.PARTS / "found.py").read_text(encoding="utf-8")
    for seed in sample((1, 2)):
        sources = {
            step.name: (f"liar/{step.name}.py", step.solved() + found + LIAR.format(seed=seed, share=share))
            for step in sample(solutions(), 3)
        }
        report = warm.grade(Submission("liar", sources), choice.by_default(sources, {}), device="cpu", seed=seed)
        errors = [f"{s.name}.{c.name}: {c.message}" for s in report.steps for c in s.checks if c.status == "error"]
        assert errors == []
        assert share < 1.0 or report.score == 0.0  # it lies


@pytest.mark.thorough
def test_memory_holds_nothing_of_a_reference(warm: Grader) -> None:
    """Every byte that a worker has in memory, searched for sentences of the references and of the checks."""
    said = [
        line.strip().lstrip("# ").encode()
        for path in sorted((ROOT / "solutions").glob("*/step*/**/*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith("# ") and len(line.strip()) > 60
    ]
    assert len(said) > 20
    marker = "marker-of-this-test"
    source = f"import time\nmarker = {marker!r}\nprint('up', flush=True)\ntime.sleep(60)\n"
    found: dict[int, list[bytes]] = {}
    warm.grade(one_file(STEP, GOOD), [STEP], device="cpu")
    judges = descendants(zygote_pid(warm))  # they have the submission's source in memory, and the reference

    def look() -> None:
        begin = time.monotonic()
        while not found and time.monotonic() < begin + 60:
            for pid in set(descendants(zygote_pid(warm))) - set(judges):
                memory = _memory(pid)
                if memory is not None and marker.encode() in memory:
                    found[pid] = [sentence for sentence in said if sentence in memory]
            time.sleep(0.1)

    looking = threading.Thread(target=look)
    warm.limits = Limits(call_seconds=10.0)
    looking.start()
    warm.grade(one_file(STEP, source), [STEP], device="cpu")
    looking.join()
    if not found:
        pytest.skip("the memory of a process that hides itself is read by root only")
    assert set(map(tuple, found.values())) == {()}


def _memory(pid: int) -> bytes | None:
    """What a process has written into its memory, as far as it can be read."""
    read = []
    try:
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                span, modes = line.split()[:2]
                start, end = (int(part, 16) for part in span.split("-"))
                if "w" in modes and end - start < 1 << 30:
                    memory.seek(start)
                    with contextlib.suppress(OSError):
                        read.append(memory.read(end - start))
    except OSError:
        return None
    return b"".join(read)
