"""The security page says what the recorded runs gave, about every attack that there is, and no run gave a surprise."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from grader.base.language import LANGUAGES
from grader.judge.grader import ROOT
from tests import hostile
from tests.hostile import KERNELS, STEP, Attack
from tests.whole import sample
from tools import security_page, security_runs
from tools.security_runs import AttackRun, Record, Run

HEADER = "# step: {step}\n# expect: pass\n# rests on: {layers}\n# A perfect judge: none.\n# 완벽한 심판: 없음.\n{code}"


def written(folder: Path, layers: str = hostile.ALONE, code: str = "x = 1\n") -> Attack:
    """An attack in a file of its own."""
    path = folder / "attack_of_a_test.py"
    path.write_text(HEADER.format(step=STEP, layers=layers, code=code), encoding="utf-8")
    return Attack(path)


def test_every_attack_was_run_as_it_is() -> None:
    """One that is new, gone or changed since then is named."""
    changed = security_runs.changed(security_runs.recorded())
    assert not changed, f'not what was run: {", ".join(changed)}. Type: make security ATTACKS="{" ".join(changed)}"'


def test_pages_are_made_of_the_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In both languages, with a row for every attack."""
    monkeypatch.setattr(security_page, "FILES", {spoken: tmp_path / "docs" / f"{spoken}.md" for spoken in LANGUAGES})
    assert security_page._written(security_runs.recorded()) == 0
    for page in security_page.FILES.values():
        text = page.read_text(encoding="utf-8")
        assert all(f"`{attack.name}`" in text for attack in hostile.attacks())


def test_every_set_of_layers_was_run() -> None:
    """As an ordinary user and as root; with all layers nothing gets through."""
    record = security_runs.recorded()
    assert [(run.user, tuple(run.without)) for run in record.runs] == security_runs.RUNS
    assert [run.through for run in record.runs if not run.without] == [[], []]


def test_every_attack_has_its_outcome() -> None:
    """In every run, with the layers and without: it got through where its header says so, and nowhere else."""
    assert security_runs.surprises(security_runs.recorded()) == []


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")
def test_process_and_limits_alone() -> None:
    """Those that claim to hold without a layer of the kernel's do, but for the ones that wait for a deadline and for
    parts of torch that are slow to import: `make security` tries these too."""
    claims = [
        attack
        for attack in hostile.attacks()
        if attack.holds(KERNELS) and "timeout" not in attack.expected and not attack.name.startswith(("honest", "end_"))
    ]
    assert len(claims) > 60
    claims = [*sample(claims)]
    try:
        hostile.require_ordinary_user()
    except hostile.NoOtherUser as error:
        pytest.skip(f"no process of another user can be started: {error}")

    def run(part: list[Attack]) -> list[AttackRun]:
        return security_runs.run("ordinary", KERNELS, part, lambda tried, attack: None)

    with ThreadPoolExecutor(2) as pool:
        got = [tried for part in pool.map(run, [claims[0::2], claims[1::2]]) for tried in part]
    assert {tried.attack: tried.why for tried in got} == dict.fromkeys((attack.name for attack in claims), "")


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_every_attack_has_its_row(spoken: str) -> None:
    """Once, with its outcome, what that rests on, and what came with each layer by itself."""
    text = security_page.page(spoken, security_runs.recorded())
    words = security_page.WORDS[spoken]
    for attack in hostile.attacks():
        named = [line for line in text.splitlines() if line.startswith(f"| `{attack.name}` |")]
        rows = [line for line in named if line.count(" | ") > 2]  # a trust has its length in a table of its own
        assert len(rows) == 1 and len(named) == 1 + attack.name.startswith("trust_")
        cells = [cell.strip() for cell in rows[0].strip("|").split(" | ")]
        assert all(f"`{status}`" in cells[2] for status in attack.expected)
        assert all(f"`{layer}`" in cells[3] for group in attack.rests_on() for layer in group)
        assert [cell != words["through"] for cell in cells[4:]] == [
            attack.holds(without) for without in (KERNELS, *security_page.ALONE)
        ]


# --- what the headers say --------------------------------------------------------------------------------------------


def test_what_an_outcome_rests_on(tmp_path: Path) -> None:
    """One layer of each group must be in force; root may need more."""
    assert written(tmp_path).holds(KERNELS)
    either = written(tmp_path, "seccomp, and namespaces or landlock")
    assert either.holds(["landlock"]) and either.holds(["namespaces"])
    assert not either.holds(["seccomp"]) and not either.holds(["namespaces", "landlock"])
    for_root = written(tmp_path, "process and limits; as root: landlock")
    assert for_root.holds(["landlock"]) and not for_root.holds(["landlock"], "root")
    with pytest.raises(AssertionError, match="no layer"):
        written(tmp_path, "secomp").holds([])


def test_a_surprise_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What gets through against its header, and what holds against it."""
    attack = written(tmp_path, "seccomp")
    monkeypatch.setattr(hostile, "attacks", lambda: [attack])
    digests = {attack.name: attack.digest}

    def said(*runs: Run) -> list[str]:
        return security_runs.surprises(Record("Linux", digests, list(runs)))

    assert said(Run("ordinary", [], []), Run("ordinary", ["seccomp"], [attack.name])) == []
    (through,) = said(Run("ordinary", ["landlock"], [attack.name]))
    assert "GETS THROUGH" in through and "without landlock" in through and attack.name in through
    (held,) = said(Run("ordinary", ["seccomp", "landlock"], []))
    assert "HOLDS" in held and attack.name in held


def test_a_changed_attack_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its code, not by the words of its header."""
    monkeypatch.setattr(hostile, "attacks", lambda: [written(tmp_path)])
    record = Record("Linux", {"attack_of_a_test": written(tmp_path).digest}, [])
    assert security_runs.changed(record) == []
    monkeypatch.setattr(hostile, "attacks", lambda: [written(tmp_path, "seccomp")])
    assert security_runs.changed(record) == []
    monkeypatch.setattr(hostile, "attacks", lambda: [written(tmp_path, code="x = 2\n")])
    assert security_runs.changed(record) == ["attack_of_a_test"]
    monkeypatch.setattr(hostile, "attacks", list)
    assert security_runs.changed(record) == ["attack_of_a_test"]


# --- the runs --------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was tried is not tried again, unless the attack has changed since; half a line is nothing."""
    first = written(tmp_path)
    (tmp_path / "other.py").write_text(first.source, encoding="utf-8")
    second = Attack(tmp_path / "other.py")
    monkeypatch.setattr(security_runs, "PUT_ASIDE", tmp_path / "build" / "aside.jsonl")
    asked: list[list[str]] = []

    def run(user: str, without: object, attacks: list[Attack], on_tried: object) -> list[AttackRun]:
        asked.append([attack.name for attack in attacks])
        tried = []
        for attack in attacks:
            tried.append(AttackRun(attack.name, "reached" if attack is second else ""))
            on_tried(tried[-1], attack)  # type: ignore[operator]
            if len(asked) == 1:
                raise KeyboardInterrupt
        return tried

    def played() -> set[str]:
        progress = security_runs._Progress(2)
        return security_runs._played(("ordinary", ("seccomp",)), [first, second], progress)[1]

    monkeypatch.setattr(security_runs, "run", run)
    with pytest.raises(KeyboardInterrupt):
        played()
    with security_runs.PUT_ASIDE.open("ab") as file:
        file.write(msgspec.json.encode(AttackRun(second.name, user="ordinary", without=["seccomp"]))[:-5])
    assert played() == played() == {"other"}
    assert asked == [[first.name, second.name], [second.name], []]
    first = written(tmp_path, code="x = 2\n")
    assert played() == {"other"}
    assert asked[3:] == [[first.name]]


def test_a_surprise_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pages are written all the same, and the command says which header or which layer is to be mended."""
    record = security_runs.recorded()
    record.runs[3].through.remove("open_sockets")
    monkeypatch.setattr(security_page, "FILES", {"en": tmp_path / "security.md"})
    assert security_page._written(record) == 1
    assert "open_sockets HOLDS" in capsys.readouterr().err
    assert (tmp_path / "security.md").is_file()


def test_a_name_that_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before anything is run."""
    monkeypatch.setattr(sys, "argv", ["security_page", "read_hme"])
    assert security_page.main() == 2
    assert capsys.readouterr().err == "There is no attack read_hme. Type: ls tests/attacks\n"


def test_files_are_written_whole(tmp_path: Path) -> None:
    """One that can't be written leaves what was there."""
    file = tmp_path / "record.json"
    security_runs.write(file, "first")
    with pytest.raises(UnicodeEncodeError):
        security_runs.write(file, "second \ud800")
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]
    assert security_runs.RECORD.is_relative_to(ROOT)
