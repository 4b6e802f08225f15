"""The numbers and cases at which a verdict, a mark or a wall changes: one step further, and it must be another."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from grader.base import untrusted
from grader.base.errors import CheckFailed
from grader.base.limits import Limits
from grader.base.results import Report, Status, StepResult
from grader.calls import codec
from grader.calls.framing import BadMessage
from grader.calls.values import MAX_TENSORS, PlacedTensor
from grader.checks.compare import Tolerance, require_agreement, require_gradients
from grader.checks.trial import Verdict
from grader.course import submissions
from grader.course.steps import Check
from grader.feedback import similarity
from grader.judge import outcome
from grader.marks import assignments, sheets
from grader.marks import marking as marks
from grader.sandbox import bounds, kernel

# --- comparing -------------------------------------------------------------------------------------------------------

UNITS = {torch.float64: 16, torch.float32: 16, torch.float16: 4, torch.bfloat16: 4}


def agrees(compare: Callable[[], None]) -> bool:
    """Whether a comparison passes."""
    try:
        compare()
    except CheckFailed:
        return False
    return True


def compared(got: torch.Tensor, expected: torch.Tensor) -> bool:
    return agrees(lambda: require_agreement(PlacedTensor(got, "cpu"), PlacedTensor(expected, "cpu"), Tolerance()))


def gradients_compared(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    named = [{str(place): PlacedTensor(tensor, "cpu") for place, tensor in enumerate(side)} for side in (got, expected)]
    return agrees(lambda: require_gradients(named[0], named[1], Tolerance()))  # type: ignore[arg-type]  # no None here


@pytest.mark.parametrize("dtype", UNITS)
def test_so_many_roundings_of_a_dtype_agree_and_one_more_does_not(dtype: torch.dtype) -> None:
    """Of a value, and four times as many of a gradient."""
    one, unit = torch.ones(2, dtype=dtype), torch.finfo(dtype).eps
    assert compared(one + UNITS[dtype] * unit, one) and not compared(one + (UNITS[dtype] + 1) * unit, one)
    room = 4 * UNITS[dtype]
    assert gradients_compared([one + room * unit], [one])
    assert not gradients_compared([one + (room + 2) * unit], [one])


def test_what_is_near_zero_is_compared_with_a_thousandth() -> None:
    """A gradient that is zero by cancellation, with three tenths of the largest one of the call."""
    zero, one, unit = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64), 2.0**-52
    assert compared(zero + 15.9 * unit * 1e-3, zero) and not compared(zero + 16.1 * unit * 1e-3, zero)
    for size, expected in ((0.29, True), (0.31, False)):
        assert gradients_compared([one, zero + size * 64 * unit], [one, zero]) is expected


# --- bytes that were not made by us ----------------------------------------------------------------------------------


def payload(table: str, data: bytes = b"") -> bytes:
    """A payload with this table."""
    return struct.pack("<Q", len(table)) + table.encode() + data


def test_a_table_of_tensors_may_be_so_long_and_no_longer() -> None:
    """Its size is looked at before it is parsed."""
    table = json.dumps({"0": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
    assert codec._tensors(payload(table.ljust(1 << 20), bytes(4)))["0"].tolist() == [0.0]
    with pytest.raises(BadMessage, match="too long"):
        codec._tensors(payload(table.ljust((1 << 20) + 1), bytes(4)))


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_may_hold_so_many_tensors_and_no_more(more: int) -> None:
    """None of them is made where there are too many."""
    names = range(MAX_TENSORS + more)
    table = {str(name): {"dtype": "U8", "shape": [1], "data_offsets": [name, name + 1]} for name in names}
    sent = payload(json.dumps(table), bytes(len(names)))
    assert MAX_TENSORS == 4096
    if not more:
        assert len(codec._tensors(sent)) == 4096
        return
    with pytest.raises(BadMessage, match="4097 tensors"):
        codec._tensors(sent)


@pytest.mark.parametrize("length", [3, 5, 8])
def test_a_tensor_of_another_length_than_its_shape_is_refused(length: int) -> None:
    """By us too, whatever the library that parses the table lets through."""
    with pytest.raises(BadMessage, match="disagrees"):
        codec._tensor({"dtype": "F32", "shape": [1], "data": bytearray(length)})


# --- submissions -----------------------------------------------------------------------------------------------------


def test_a_notebook_without_an_answer_and_files_beyond_the_limit_are_named(tmp_path: Path) -> None:
    """What was not read is said, with the reason."""
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    (tmp_path / "notes.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    for number in range(submissions.MAX_FILES + 1):
        (tmp_path / f"m{number:03}.py").write_text("", encoding="utf-8")
    unread = submissions.read(tmp_path).unread
    assert unread["notes.ipynb"] == "it has no answer cell"
    assert submissions.MAX_FILES == 200 and unread["m200.py"] == "more than 200 files" and "m199.py" not in unread


def test_a_link_that_was_a_file_a_moment_ago_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a path and its opening, somebody can exchange it."""
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (tmp_path / "step.py").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    with pytest.raises(untrusted.Unusable, match="can't be read"):
        untrusted.content(tmp_path / "step.py", "step.py", 100)


# --- points ----------------------------------------------------------------------------------------------------------


def ended(name: str, status: Status, device: str = "cpu", called: str = "", off_limits: str = "") -> outcome.Ending:
    failure = CheckFailed("")
    failure.off_limits = off_limits
    verdict = Verdict(status, f"{off_limits} is off limits" if off_limits else "", frozenset(called), failure=failure)
    return outcome.Ending("step", Check(name, name, 1.0, print), device, verdict, share=1.0)


def test_a_check_that_fails_on_one_device_has_no_points_on_the_other() -> None:
    """Another check keeps its own."""
    endings = [ended("a", "pass"), ended("a", "fail", "cuda"), ended("b", "pass"), ended("b", "pass", "cuda")]
    assert [result.points for result in outcome.results(endings, "", "")] == [0.0, 0.0, 1.0, 1.0]


def test_a_function_that_is_off_limits_loses_every_check_that_calls_it() -> None:
    """Those of other functions keep their points, and a fault of ours stays one."""
    endings = [
        ended("a", "fail", called="f", off_limits="f"),
        ended("b", "pass", called="fg"),
        ended("c", "pass", called="g"),
        ended("d", "error", called="f"),
    ]
    results = outcome.results(endings, "", "")
    assert [(result.status, result.points) for result in results] == [
        ("fail", 0.0), ("fail", 0.0), ("pass", 1.0), ("error", 0.0),
    ]  # fmt: skip
    assert results[1].off_limits and results[1].message == "f is off limits"


def test_a_result_is_built_once() -> None:
    """Nothing changes one that is there."""
    (result,) = outcome.results([ended("a", "pass")], "", "")
    with pytest.raises(AttributeError):
        result.points = 0.0  # type: ignore[misc]


@pytest.fixture
def term(tmp_path: Path) -> assignments.Term:
    """An assignment whose second step counts twice, with a step of extra credit."""
    written = '[assignments.one]\nsteps = "1-2"\nweights = { 2 = 2 }\nextra = "3"\n'
    (tmp_path / "assignments.toml").write_text(written, encoding="utf-8")
    return assignments.read(tmp_path / "assignments.toml")


def test_a_person_may_give_a_step_what_it_is_worth_and_no_more(term: assignments.Term) -> None:
    """In this assignment: twice its eight points."""
    table = term.file.parent / sheets.OVERRIDES
    table.write_text("student,step,points,reason\nada,2,16,board\n", encoding="utf-8")
    assert marks.of(term, "one").overrides["ada", "step02_softmax"].points == 16
    table.write_text("student,step,points,reason\nada,2,16.5,board\n", encoding="utf-8")
    with pytest.raises(assignments.BadTerm, match=r"worth 16 points here, so 16\.5 are too many"):
        marks.of(term, "one")


def test_extra_credit_is_earned_on_top_of_a_total_that_it_does_not_raise(term: assignments.Term) -> None:
    """6 and twice 8 points make the total; what step 3 gave is added to what was earned."""
    steps = [
        StepResult(
            name=name, track="core", title=name, status="pass", score=worth, max_score=worth, seconds=0.0, checks=[]
        )
        for name, worth in (("step01_scores", 6.0), ("step02_softmax", 8.0), ("step03_attention", 7.0))
    ]
    report = Report(
        submission="ada", seed=1, isolation=[], devices={}, score=21.0, max_score=21.0, tracks=[], steps=steps
    )
    mark = marks.of(term, "one").mark("ada", report)
    assert (mark.out_of, mark.points) == (22.0, 29.0)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_a_name_that_our_tables_kept_from_being_a_formula_is_read_as_it_was(term: assignments.Term, sign: str) -> None:
    """The apostrophe before it is ours; before anything else it is the person's."""
    table = term.file.parent / sheets.OVERRIDES
    table.write_text(f"student,step,points,reason\n'{sign}ada,2,1,'tis so\n", encoding="utf-8")
    ((student, _step), decided) = next(iter(sheets.overrides(term, term.assignments["one"]).items()))
    assert (student, decided.reason) == (f"{sign}ada", "'tis so")


# --- similar submissions ---------------------------------------------------------------------------------------------

STUB = (
    "def f(a, b):\n    c = [a.mean(dim=0), b.sum(dim=1)]\n    for d in c:\n        d.sqrt().exp().log()\n    return c\n"
)


def written(number: int) -> str:
    """An answer below the stub that no other student has."""
    return STUB + f"\n\ndef g(x):\n    return x.view({number}, {number + 7}).sum({number}) + {number * 3}\n"


def test_what_the_stub_says_is_nobody_s_likeness() -> None:
    """Two who left it in their files share nothing; without a stub they would."""
    students = {f"{number}": {"step": written(number)} for number in range(2)}
    assert similarity.pairs(students, {"step": STUB}) == []
    assert similarity.pairs(students, {}) != []


@pytest.mark.parametrize(("givers", "counts"), [(2, True), (3, False)])
def test_a_wrong_answer_is_unusual_where_two_gave_it(givers: int, counts: bool) -> None:
    """Three give what is a common mistake."""
    students = {f"{number}": {"step": written(number)} for number in range(6)}
    wrong = {f"{number}": frozenset({"the same"}) for number in range(givers)}
    found = similarity.pairs(students, {}, wrong=wrong)
    assert bool([pair for pair in found if pair.answers]) is counts


# --- the walls around a worker ---------------------------------------------------------------------------------------

EPERM, ENOSYS = kernel.SECCOMP_ERRNO | 1, kernel.SECCOMP_ERRNO | 38
X32 = 0x40000000
OWN_PID = 4242


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each machine in turn, whatever this one is."""
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    kernel.allowed_calls.cache_clear()
    yield request.param
    kernel.allowed_calls.cache_clear()


def action(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the filter answers: classic BPF as the kernel runs it, over the data of one call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, word = 0, 0
    while True:
        name, if_true, if_false, value = code[at]
        at += 1
        match name:
            case 0x20:  # load a word
                (word,) = struct.unpack_from("=I", data, value)
            case 0x15:  # jump if equal
                at += if_true if word == value else if_false
            case 0x35:  # jump if greater or equal
                at += if_true if word >= value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"no instruction of ours: {name:#x}")


def filter_of(machine: str) -> tuple[bytes, int, int]:
    """The whole program, this machine's column in the tables, and its architecture as the kernel names it."""
    program = kernel.allowed_calls() + kernel._packed([*kernel._own_calls(OWN_PID), kernel.REFUSE])
    return program, *{"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}[machine]


def test_the_filter_lets_through_what_the_table_names_and_nothing_else(machine: str) -> None:
    """Every number is tried: what is newer than the table does not exist, all else is refused."""
    program, column, architecture = filter_of(machine)
    allowed = {entry[1 + column] for entry in kernel.ALLOWED} - {None}
    assert len(allowed) > 80 and 41 not in allowed - {41 if machine == "aarch64" else None}
    for number in range(1100):
        expected = kernel.SECCOMP_ALLOW if number in allowed else ENOSYS if number >= 448 or number == 435 else EPERM
        assert action(program, architecture, number, 1 << 31, 1 << 31) == expected, number
        assert action(program, architecture, number | X32) == ENOSYS, f"x32: {number}"


def test_another_architecture_s_numbers_are_refused(machine: str) -> None:
    """One instruction makes a 32-bit call from a 64-bit process; there 11 is `execve`."""
    program, _column, architecture = filter_of(machine)
    for other in {0x40000003, 0xC000003E, 0x40000028, 0xC00000B7, 0} - {architecture}:
        assert {action(program, other, number) for number in range(500)} == {EPERM}


def test_calls_with_arguments_reach_this_process_alone(machine: str) -> None:
    """No signal to another process or group, no limit of another, no new owner of signals, no lease."""
    program, column, architecture = filter_of(machine)

    def is_allowed(numbers: tuple[int, int], *arguments: int) -> bool:
        return action(program, architecture, numbers[column], *arguments) == kernel.SECCOMP_ALLOW

    kill, tgkill, prlimit, fcntl, ioctl, prctl = (62, 129), (234, 131), (302, 261), (72, 25), (16, 29), (157, 167)
    for call in (kill, tgkill):
        assert is_allowed(call, OWN_PID, 9) and not any(is_allowed(call, pid, 9) for pid in (0, 1, 2**32 - 1, 4243))
    assert is_allowed(prlimit, 0) and is_allowed(prlimit, OWN_PID) and not is_allowed(prlimit, 1)
    assert [command for command in range(1100) if is_allowed(fcntl, 3, command)] == [0, 1, 2, 3, 4, 1030]
    assert is_allowed(ioctl, 0, 0x5401) and not is_allowed(ioctl, 0, 0x5412)  # TIOCSTI types into a terminal
    assert is_allowed(prctl, kernel.PR_GET_DUMPABLE) and not is_allowed(prctl, kernel.PR_SET_DUMPABLE)


@pytest.mark.parametrize("abi", range(1, 9))
def test_landlock_handles_all_that_a_kernel_knows(abi: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files in every version, TCP from 4 on, abstract sockets and signals from 6 on; and what is allowed where."""
    seen: dict[str, list[bytes]] = {}

    def noted(name: str, *arguments: object) -> int:
        kept = [each.raw for each in arguments if isinstance(each, ctypes.Array)]
        seen.setdefault(name, []).extend(kept or [struct.pack("=q", int(str(arguments[-1])))])
        if name == "landlock_create_ruleset":
            assert arguments[1] == (8 if abi < 4 else 16 if abi < 6 else 24)
            return os.open(os.devnull, os.O_RDONLY)
        return 0

    monkeypatch.setattr(kernel, "system_call", noted)
    assert kernel.restrict_files(str(tmp_path), ["/usr"], abi)
    files, net, scopes = struct.unpack_from("=QQQ", seen["landlock_create_ruleset"][0])
    assert files == {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}.get(abi, 0xFFFF)
    assert (net, scopes) == (0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    readable, own, null = (struct.unpack_from("=Q", rule)[0] for rule in seen["landlock_add_rule"])
    assert readable == kernel.READ_FILE | kernel.READ_DIR
    making = sum(1 << bit for bit in (6, 9, 10, 11, 12))  # devices, sockets, pipes and links
    assert own & kernel.WRITE_FILE and not own & (1 | making) and null == kernel.READ_FILE | kernel.WRITE_FILE
    assert len(seen["landlock_restrict_self"]) == 1
    assert not kernel.restrict_files(str(tmp_path), ["/usr"], 0)


@pytest.mark.parametrize("answer", [0, -1])
def test_every_capability_is_dropped(answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Effective, permitted and inheritable; where the kernel refuses, it is said."""
    made: list[tuple[str, bytes, bytes]] = []

    def noted(name: str, header: ctypes.Array[ctypes.c_char], nothing: ctypes.Array[ctypes.c_char]) -> int:
        made.append((name, header.raw, nothing.raw))
        return answer

    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(kernel, "system_call", noted)
    monkeypatch.setattr(kernel, "prctl", lambda *words: asked.append(words) or -(words[-1] >= 40))
    assert kernel.drop_privileges() is (answer == 0)
    ((name, header, nothing),) = made
    assert name == "capset" and struct.unpack_from("=II", header) == (kernel.CAPABILITY_VERSION_3, 0)
    assert nothing[:24] == bytes(24)
    assert {(kernel.PR_CAPBSET_DROP, number) for number in range(40)} <= set(asked)
    assert any(words[0] == kernel.PR_CAP_AMBIENT for words in asked)


@pytest.mark.parametrize(
    ("no_new", "dropped", "layers"), [(0, True, ("landlock", "seccomp")), (0, False, ()), (-1, True, ())]
)
def test_no_layer_counts_where_privileges_are_left(
    no_new: int, dropped: bool, layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root, or a program that makes one root, could do what the layers refuse."""
    bound: list[str] = []
    monkeypatch.setattr(kernel, "prctl", lambda option, value=0: no_new * (option == kernel.PR_SET_NO_NEW_PRIVS))
    monkeypatch.setattr(kernel, "drop_privileges", lambda: dropped)
    monkeypatch.setattr(kernel, "restrict_files", lambda *_given: not bound.append("landlock"))
    monkeypatch.setattr(kernel, "filter_calls", lambda: not bound.append("seccomp"))
    assert kernel.confine("/nowhere", []) == layers == tuple(bound)


@pytest.mark.parametrize("accelerator", [False, True])
def test_a_worker_starts_no_process_and_no_thread(accelerator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a driver of an accelerator, which needs threads."""
    bound: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: bound.update({kind: limits}))
    bounds._limit_resources(Limits(accelerator=accelerator))
    assert bound.get(resource.RLIMIT_NPROC) == (None if accelerator else (0, 0))
    assert bound[resource.RLIMIT_CORE] == (0, 0) and resource.RLIMIT_FSIZE in bound
