"""Every attack against every set of layers: what came of it stands in `security.json`, for docs/security.md.

Runs in which a program could start others are made as an ordinary user only: no limit stops root from doing so without
end. What was tried is put aside, so that a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from grader.classes import kit_version
from grader.judge.grader import ROOT, Grader
from grader.judge.launcher import GraderError
from tests import hostile
from tests.hostile import KERNELS, Attack

RECORD = Path(__file__).parent / "security.json"
PUT_ASIDE = ROOT / "build" / "security.jsonl"
# As whom the attacks are run, and which layers are left out.
RUNS: list[tuple[str, tuple[str, ...]]] = [
    *(("ordinary", without) for without in (
        (), ("namespaces",), ("landlock",), ("seccomp",), ("namespaces", "landlock"), ("namespaces", "seccomp"),
        ("landlock", "seccomp"), KERNELS,
    )),
    *(("root", without) for without in ((), ("namespaces",), ("landlock",), ("namespaces", "landlock"))),
]  # fmt: skip
AT_ONCE = 3  # on two cores: most of the time is spent waiting for deadlines
SAY_EVERY = 50  # attacks
LIMITS = msgspec.structs.replace(hostile.LIMITS, call_seconds=1.5, step_seconds=6.0)


class Run(msgspec.Struct):
    """Every attack against one set of layers: which of them got through."""

    user: str
    without: list[str]
    through: list[str]


class Record(msgspec.Struct):
    """What was run and where: a digest of each attack by its name, and what came of it."""

    system: str
    attacks: dict[str, str]
    runs: list[Run]


class AttackRun(msgspec.Struct):
    """One attack against one set of layers. `why`: every way in which it got through; empty where it did not."""

    attack: str
    why: str = ""
    user: str = ""
    without: list[str] = msgspec.field(default_factory=list)
    of: str = ""  # a digest of the attack and of the kit


def recorded() -> Record:
    """What stands in the file."""
    return msgspec.json.decode(RECORD.read_bytes(), type=Record)


def record(made: Record) -> None:
    """Writes the file, whole or not at all."""
    write(RECORD, msgspec.json.format(msgspec.json.encode(made), indent=1).decode() + "\n")


def write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


# --- what was run, beside what the attacks say of themselves ---------------------------------------------------------


def changed(made: Record) -> list[str]:
    """The attacks that are not what was run, by name: other code, another outcome, new, or gone."""
    now = {attack.name: attack.digest for attack in hostile.attacks()}
    return sorted(name for name in now.keys() | made.attacks.keys() if now.get(name) != made.attacks.get(name))


def surprises(made: Record) -> list[str]:
    """Every attack that got through where its header says that the outcome holds, or the other way round: a line
    each."""
    return [
        _surprise(attack, attack.name in run.through, run.user, run.without)
        for run in made.runs
        for attack in hostile.attacks()
        if attack.name in made.attacks and attack.holds(run.without, run.user) == (attack.name in run.through)
    ]


def _surprise(attack: Attack, is_through: bool, user: str, without: Collection[str]) -> str:
    got = "GETS THROUGH, and its header says it does not" if is_through else "HOLDS, and its header says it does not"
    return f"{attack.name} {got}: {user}, without {_listed(without)}"


def _listed(layers: Collection[str]) -> str:
    return ", ".join(layers) or "nothing"


# --- running ---------------------------------------------------------------------------------------------------------


def play(names: Collection[str]) -> Record:
    """Runs the attacks of these names against every set of layers that this user can try.

    Of the others, and of the runs that only root can make, what is recorded stays.
    """
    users = ("ordinary", "root") if os.geteuid() == 0 else ("ordinary",)
    attacks = [attack for attack in hostile.attacks() if attack.name in names]
    progress = _Progress(sum(user in users for user, _without in RUNS) * len(attacks))
    play_one = partial(_played, attacks=attacks, progress=progress)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tried = list(pool.map(play_one, [wanted for wanted in RUNS if wanted[0] in users]))
    known = {attack.name: attack.digest for attack in hostile.attacks()}
    earlier = recorded() if RECORD.is_file() else Record("", {}, [])
    kept = {(run.user, *run.without): run.through for run in earlier.runs}
    made = {(user, *without): through for (user, without), through in tried}
    runs = []
    for user, without in RUNS:
        through = set(kept.get((user, *without), [])).intersection(known)
        if user in users:
            through = through.difference(names) | made[user, *without]
        runs.append(Run(user, list(without), sorted(through)))
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {platform.machine()}"
    digests = {name: digest if name in names else earlier.attacks.get(name, "") for name, digest in known.items()}
    return Record(system, digests, runs)


def done() -> None:
    """Forgets what was put aside: everything is recorded."""
    PUT_ASIDE.unlink(missing_ok=True)


def _played(
    wanted: tuple[str, tuple[str, ...]], attacks: Sequence[Attack], progress: _Progress
) -> tuple[tuple[str, tuple[str, ...]], set[str]]:
    user, without = wanted
    begin = time.monotonic()
    through = progress.put_aside(user, without, attacks)
    waiting = [attack for attack in attacks if attack.name not in through]
    for tried in run(user, without, waiting, partial(progress.note, user, without)):
        through[tried.attack] = tried.why
    names = {name for name, why in through.items() if why}
    progress.say(
        f"{user:9} without {_listed(without):32} {len(names):3} of {len(attacks)} get through, "
        f"{time.monotonic() - begin:.0f} s"
    )
    return wanted, names


def run(
    user: str, without: Collection[str], attacks: Sequence[Attack], on_tried: Callable[[AttackRun, Attack], None]
) -> list[AttackRun]:
    """Attacks against one set of layers, in a process of their own, as this user. Raises CalledProcessError."""
    if not attacks:
        return []
    command = [sys.executable, "-m", __name__, ",".join(without), *(attack.name for attack in attacks)]
    if user == "ordinary" and os.geteuid() == 0:
        command = hostile.as_an_ordinary_user(command)
    found = []
    surroundings = os.environ | {"HOME": "/nonexistent"}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=surroundings, text=True) as running:
        assert running.stdout is not None
        for line, attack in zip(running.stdout, attacks, strict=False):
            found.append(msgspec.json.decode(line, type=AttackRun))
            assert found[-1].attack == attack.name
            on_tried(found[-1], attack)
    if running.returncode or len(found) < len(attacks):
        raise subprocess.CalledProcessError(running.returncode, command[:3])
    return found


def through(without: Collection[str], attacks: Sequence[Attack]) -> None:
    """Tries the attacks without these layers, in one warm grader, and prints what came of each: one that gets through
    gives what no perfect judge does, or leaves a grader that does not grade a right submission right."""
    os.environ["KIT_TEST_SECRET_TOKEN"] = "1"
    grader = Grader(1, LIMITS)
    patient = msgspec.structs.replace(hostile.PATIENT, without=tuple(without))
    for attack in attacks:
        limits = patient if attack.is_honest else msgspec.structs.replace(LIMITS, without=tuple(without))
        try:
            why = "\n".join(hostile.tried_in_short(attack, grader, limits))
            grader.limits = patient
            (good,) = grader.grade(hostile.one_file(hostile.STEP, hostile.GOOD), [hostile.STEP], device="cpu").steps
            if not why and good.status != "pass":
                why = f"a right submission is {good.status} after it"
        except GraderError as error:
            why = str(error) or type(error).__name__
        print(msgspec.json.encode(AttackRun(attack.name, why)).decode(), flush=True)
        if why:
            grader.close()
            grader = Grader(1, LIMITS)
    grader.close()


class _Progress:
    """What was tried already, put aside line by line for the case that a run is interrupted, and how far it is."""

    def __init__(self, count: int) -> None:
        self._count, self._tried, self._begin = count, 0, time.monotonic()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], AttackRun] = {}
        if PUT_ASIDE.is_file():
            for line in PUT_ASIDE.read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):  # it was interrupted while it wrote
                    tried = msgspec.json.decode(line, type=AttackRun)
                    self._known[tried.user, *tried.without, tried.attack] = tried

    def put_aside(self, user: str, without: Collection[str], attacks: Sequence[Attack]) -> dict[str, str]:
        """What came of those of the attacks that an interrupted run has tried, as they are now."""
        found = {}
        for attack in attacks:
            tried = self._known.get((user, *without, attack.name))
            if tried is not None and tried.of == self._of(attack):
                found[attack.name] = tried.why
        with self._lock:
            self._count -= len(found)
        return found

    def note(self, user: str, without: Collection[str], tried: AttackRun, attack: Attack) -> None:
        """Puts aside what came of one attack."""
        tried.user, tried.without, tried.of = user, list(without), self._of(attack)
        with self._lock:
            PUT_ASIDE.parent.mkdir(exist_ok=True)
            with PUT_ASIDE.open("ab") as file:
                file.write(b"\n" + msgspec.json.encode(tried) + b"\n")  # after half a line, if there is one
            self._tried += 1
        if attack.holds(without, user) == bool(tried.why):
            self.say(f"{_surprise(attack, bool(tried.why), user, without)}\n{tried.why}")
        if self._tried % SAY_EVERY == 0:
            self.say(f"{self._tried} of {self._count} tried, {time.monotonic() - self._begin:.0f} s")

    @staticmethod
    def say(line: str) -> None:
        """Prints a line for whoever waits."""
        print(line, file=sys.stderr, flush=True)

    @staticmethod
    def _of(attack: Attack) -> str:
        return f"{attack.digest} {kit_version.kit_version()} {platform.release()}"


if __name__ == "__main__":
    chosen = {attack.name: attack for attack in hostile.attacks()}
    try:
        through([layer for layer in sys.argv[1].split(",") if layer], [chosen[name] for name in sys.argv[2:]])
    except KeyboardInterrupt:  # the process that asked for it says so
        sys.exit(130)
