"""Judges share what they have learned of a seed, by a file that no worker has."""

from __future__ import annotations

import os

from grader.checks.lazy import PassRecord, Script
from grader.oracle import scripts as shared
from grader.oracle.scripts import START, SharedScripts

STEP = "step01_scores"


def learned(of: SharedScripts, seed: int, *answers: bytes) -> None:
    """One check, with these answers that have passed."""
    script = of.of(STEP, seed).setdefault("cpu", {}).setdefault("test_one", Script([[b"first", b"second"], [b"last"]]))
    for answer in answers:
        script.passed[answer] = PassRecord(frozenset({"f"}), ("f",), True, frozenset())
        script.reached.add(answer)
    of.publish(STEP)


def known(of: SharedScripts, seed: int) -> set[bytes]:
    of.refresh()
    checks = of.of(STEP, seed).get("cpu", {})
    return set(checks["test_one"].passed) if checks else set()


def test_what_one_learns_the_other_knows() -> None:
    file = os.memfd_create("scripts")
    one, other = SharedScripts(file), SharedScripts(file)
    assert known(other, 1) == set()
    learned(one, 1, b"a")
    assert known(other, 1) == {b"a"}
    learned(other, 1, b"b")
    size = os.fstat(file).st_size
    assert known(one, 1) == {b"a", b"b"}
    learned(one, 1)  # nothing new
    assert os.fstat(file).st_size == size
    assert one.of(STEP, 1)["cpu"]["test_one"] == other.of(STEP, 1)["cpu"]["test_one"]


def test_another_seed_is_another_script() -> None:
    file = os.memfd_create("scripts")
    one, other = SharedScripts(file), SharedScripts(file)
    learned(one, 1, b"a")
    learned(one, 2, b"b")
    assert known(other, 2) == {b"b"}


def test_the_file_stays_small(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(shared, "MOST", 2000)
    file = os.memfd_create("scripts")
    one, other = SharedScripts(file), SharedScripts(file)
    for seed in range(50):
        learned(one, seed, b"a", b"b")
        assert known(other, seed) == {b"a", b"b"}
    assert os.fstat(file).st_size < START + 3000


def test_without_a_file_nothing_is_shared() -> None:
    alone = SharedScripts()
    learned(alone, 1, b"a")
    assert known(alone, 1) == {b"a"}
    assert known(SharedScripts(), 1) == set()
