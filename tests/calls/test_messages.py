"""Whatever bytes a worker answers with: an outcome or BadMessage, within bounds, and nothing else."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings, target

from grader.base.errors import CheckFailed
from grader.calls import codec
from grader.calls.call import Call, Outcome, Raised
from grader.calls.codec import decode_outcome, encode_outcome
from grader.calls.framing import MAX_HEADER, MAX_PAYLOAD, PREFIX, BadMessage, frame_sizes
from grader.calls.responder import Responder
from grader.calls.values import HandleId, Opaque, PlacedTensor
from grader.checks.backends import Exchange
from grader.checks.implementation import Answer, Implementation
from grader.checks.value_text import show_value
from grader.sandbox import worker

# No database of examples: a checkout may be read-only, and stays as it was.
settings.register_profile("kit", database=None, deadline=None)
settings.load_profile("kit")
FEW = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GUIDED = settings(FEW, max_examples=int(os.environ.get("KIT_FUZZ", "300")))  # `make fuzz` asks for many more

numbers = st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(-3, 70), st.floats())
names = st.sampled_from(
    [
        "t",
        "m",
        "a",
        "n",
        "i",
        "d",
        "h",
        "o",
        "0",
        "1",
        "9",
        "meta",
        "cpu",
        "float32",
        "F32",
        "load",
        "nan",
        "0x1e999",
        "",
    ]
)
scalars = st.none() | st.booleans() | numbers | names | st.text(max_size=20) | st.binary(max_size=20)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names | st.text(max_size=5), inner, max_size=4),
    max_leaves=25,
)
sizes = st.lists(st.integers(0, 5) | st.sampled_from([2**20, 2**48, 2**63, -1]), max_size=5)
keys = st.sampled_from(["0", "1", "x"])
orders = st.none() | st.lists(st.integers(-2, 5), max_size=5)
tensors = st.tuples(st.just("t"), keys, names, orders) | st.tuples(st.just("m"), sizes, names)
values = st.recursive(
    scalars
    | tensors
    | st.tuples(st.just("h"), numbers)
    | st.tuples(st.just("o"), st.text())
    | st.tuples(st.just("a"), keys, orders)
    | st.tuples(st.just("n"), names | st.sampled_from(["-0xff", "f" * 1032, "f" * 1033])),
    lambda inner: (
        st.tuples(st.just("i"), st.lists(inner, max_size=5))
        | st.tuples(st.just("d"), st.dictionaries(names, inner, max_size=3))
    ),
    max_leaves=15,
)
outcomes = st.tuples(
    values | anything, st.none() | anything, st.dictionaries(names, st.none() | tensors, max_size=3) | anything,
    *[st.just([]) | anything] * 4, st.just(0) | numbers, st.none() | numbers, st.none() | numbers,
)  # fmt: skip
tables = st.dictionaries(
    st.sampled_from(["0", "1", "__metadata__", "x"]),
    st.fixed_dictionaries({
        "dtype": st.sampled_from(["F32", "F64", "BF16", "BOOL", "U8", "F8_E4M3", "C64", "load"]),
        "shape": sizes,
        "data_offsets": st.lists(st.sampled_from([0, 4, 8, 24, 2**62, -4]), min_size=2, max_size=2),
    }) | anything,
    max_size=3,
)  # fmt: skip


def payload_of(table: Any, data: bytes) -> bytes:
    """A payload with this table of tensors."""
    text = json.dumps(table, default=str).encode()
    return struct.pack("<Q", len(text)) + text + data


def holds_or_is_refused(header: bytes, payload: bytes) -> Outcome | None:
    """Decodes, and does with an outcome what every check does with it."""
    try:
        outcome = decode_outcome(header, payload)
    except BadMessage:
        return None
    assert isinstance(outcome, Outcome)
    assert isinstance(show_value(outcome.value), str)
    answer = Answer(Implementation(_Nobody()), Exchange(Call("f")), outcome)
    for ask in (answer.tensor, lambda: answer.tensors(2)):
        try:
            ask()
        except CheckFailed:
            continue
    assert all(value is None or isinstance(value, torch.Tensor) for value in answer.gradients.values())
    return outcome


class _Nobody:
    """A backend that is never asked."""

    def ask(self, call: Any) -> Outcome:
        """Is never called."""
        raise AssertionError

    def begin_check(self, seed: int) -> None:
        """Is never called."""


@FEW
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_noise(header: bytes, payload: bytes) -> None:
    """Bytes of no meaning."""
    holds_or_is_refused(header, payload)


@pytest.mark.thorough
@FEW
@given(outcomes, tables, st.binary(max_size=32))
def test_structured_noise(outcome: tuple[Any, ...], table: dict[str, Any], data: bytes) -> None:
    """Messages of nearly the right form."""
    try:
        header = msgspec.msgpack.encode(outcome)
    except (OverflowError, UnicodeEncodeError):
        assume(False)
    for payload in (b"", data, payload_of(table, data)):
        holds_or_is_refused(header, payload)


@pytest.mark.thorough
@GUIDED
@given(
    outcomes, tables, st.binary(max_size=64), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3)
)
def test_guided_by_coverage(
    outcome: tuple[Any, ...], table: dict[str, Any], data: bytes, damage: list[tuple[int, int]]
) -> None:
    """Messages of nearly the right form, damaged, sought out by how many lines of the decoder they run."""
    try:
        header = bytearray(msgspec.msgpack.encode(outcome))
    except (OverflowError, UnicodeEncodeError):
        assume(False)
    for place, byte in damage:
        header[place % len(header)] = byte
    target(float(lines_run(bytes(header), payload_of(table, data))), label="lines of the decoder")


def lines_run(header: bytes, payload: bytes) -> int:
    """How many different lines of the decoder two byte strings run, which must hold or be refused."""
    seen: set[int] = set()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != codec.__file__:
            return None
        seen.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        holds_or_is_refused(header, payload)
    finally:
        sys.settrace(before)
    return len(seen)


@FEW
@given(st.integers(0, 400), st.integers(0, 255), st.integers(0, 400))
def test_damaged_answers(place: int, byte: int, cut: int) -> None:
    """An honest answer with one byte changed, and its end cut off."""
    whole = encode_outcome(
        Outcome(
            (
                PlacedTensor(torch.arange(6.0).reshape(2, 3), "cpu"),
                1,
                2.5,
                "text",
                None,
                HandleId(3),
                Opaque("what"),
                np.ones((2, 3), np.float32).T,
                1 << 90,
                {"name": (1,)},
            ),
            Raised("ValueError", "message", "file", 3, "function", "source", ["x: (2,)"]),
            {"0": PlacedTensor(torch.ones(2, dtype=torch.bfloat16), "cpu"), "weight": None},
        )
    )
    header, payload = frame_sizes(whole[: PREFIX.size])
    body = bytearray(whole[PREFIX.size :])
    body[place % len(body)] = byte
    holds_or_is_refused(bytes(body[:header]), bytes(body[header : header + payload]))
    holds_or_is_refused(bytes(body[: min(header, cut)]), bytes(body[header:][:cut]))


@given(st.binary(min_size=PREFIX.size, max_size=PREFIX.size))
def test_sizes(prefix: bytes) -> None:
    """No more is read than the bounds allow."""
    try:
        header, payload = frame_sizes(prefix)
    except BadMessage:
        return
    assert 0 <= header <= MAX_HEADER and 0 <= payload <= MAX_PAYLOAD


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=50),
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=10,
    )
)
def test_values_come_back(value: Any) -> None:
    """What an honest answer holds arrives as it was."""
    whole = encode_outcome(Outcome(value))
    header, _payload = frame_sizes(whole[: PREFIX.size])
    got = decode_outcome(whole[PREFIX.size :][:header], whole[PREFIX.size :][header:]).value
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize("around", [lambda value: ["i", [value]], lambda value: ["d", {"x": value}]])
def test_nests_are_shallow(around: Callable[[Any], Any]) -> None:
    """What the judge shows and sends on from deeper calls may not be as deep as it can just read."""
    value: Any = None
    for _level in range(100):
        value = around(value)
    header = msgspec.msgpack.encode([value, None, {}, [], [], [], [], 0])
    with pytest.raises(BadMessage, match="nested"):
        decode_outcome(header, b"")


HOSTILE: dict[str, tuple[Any, dict[str, Any]]] = {
    "a tensor that is not there": (["t", "7", "cpu", None], {}),
    "a layout of another size": (["t", "0", "cpu", [0, 1]], {"dtype": "F32", "shape": [2]}),
    "a layout that names a dimension twice": (["a", "0", [0, 0]], {"dtype": "F32", "shape": [2, 1]}),
    "an array of a dtype that NumPy has not": (["a", "0", None], {"dtype": "BF16", "shape": [4]}),
    "a dtype by another name": (["m", [2], "load"], {}),
    "a dtype as torch calls it": (["m", [2], "float32"], {}),
    "a tensor of too many elements": (["m", [1 << 30, 1 << 30], "F32"], {}),
    "more digits than an integer may have": (["n", "f" * 1100], {}),
    "no digits": (["n", "0x"], {}),
    "an array of objects": (["a", "0", None], {"dtype": "O", "shape": [1]}),
    "a long name": (["d", {"n" * 201: None}], {}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_value_is_refused(case: str) -> None:
    """Whatever it is: nothing is looked up, allocated or made by a worker's word."""
    value, table = HOSTILE[case]
    tables = {"0": table | {"data_offsets": [0, 8]}} if table else {}
    with pytest.raises(BadMessage):
        decode_outcome(msgspec.msgpack.encode([value, None, {}, [], [], [], [], 0]), payload_of(tables, b"\0" * 8))


NOTHING = b"\x98\xc0\xc0\x80\x90\x90\x90\x90\x00"  # the header of an outcome that holds nothing
LONG_TABLE = {str(i): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(200_000)}
COSTLY = {
    "lists in lists": (b"\x91" * MAX_HEADER, b""),
    "items in items": (b"\x98" + b"\x92\xa1i\x91" * 250_000, b""),
    "lists that say they are long": (b"\x98" + b"\xdd\xff\xff\xff\xff" * 200_000, b""),
    "a text that says it is long": (b"\x98\xdb\xff\xff\xff\xff", b""),
    "a table that is not there": (NOTHING, struct.pack("<Q", 2**63)),
    "a long table": (NOTHING, payload_of(LONG_TABLE, b"")),
    "many dimensions": (
        NOTHING,
        payload_of({"0": {"dtype": "U8", "shape": [0] * 60_000, "data_offsets": [0, 0]}}, b""),
    ),
    "rows without an element": (
        msgspec.msgpack.encode([["t", "0", "cpu", None], None, {}, [], [], [], [], 0]),
        payload_of({"0": {"dtype": "F32", "shape": [1 << 25, 0], "data_offsets": [0, 0]}}, b""),
    ),
    "a nested table": (NOTHING, struct.pack("<Q", 900_008) + b'{"0":' + b"[" * 900_003),
}


@pytest.mark.parametrize(("header", "payload"), COSTLY.values(), ids=COSTLY)
def test_bounded_time_and_memory(header: bytes, payload: bytes) -> None:
    """What is built to cost much costs little."""
    tracemalloc.start()
    begin = time.process_time()
    try:
        holds_or_is_refused(header[:MAX_HEADER], payload)
        took, (_now, most) = time.process_time() - begin, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < 5.0
    assert most < 200 << 20


@pytest.mark.parametrize("made", [math.nan, math.inf, -math.inf])
def test_odd_floats_come_back(made: float) -> None:
    """Floats that are no numbers travel as what they are."""
    outcome = Responder({"f": lambda: made}).respond(_call("f"))
    whole = encode_outcome(outcome)
    header, _payload = frame_sizes(whole[: PREFIX.size])
    got = decode_outcome(whole[PREFIX.size :][:header], b"").value
    assert got == made or (math.isnan(got) and math.isnan(made))


def _call(name: str) -> Any:
    return Call(name)


def test_a_rehearsal_does_what_a_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Outcome] = []

    def noting(header: bytes, payload: bytes) -> Outcome:
        got.append(decode_outcome(header, payload))
        return got[-1]

    monkeypatch.setattr(worker, "decode_outcome", noting)
    worker.rehearse()
    first, measured = got[:5], got[50:]
    assert [outcome.raised.type if outcome.raised else None for outcome in first] == [None] * 4 + ["TypeError"]
    assert [outcome.of for outcome in first] == [None] * 5  # nothing that comes before a call has failed
    assert [outcome.value.device for outcome in first[:3]] == ["cpu", "meta", "cpu"]
    assert all(outcome.functions == ["matmul"] and outcome.measured == {"largest": 24} for outcome in measured)
    assert len(measured) == 8 and len(got) > 8 * 6  # Python adapts a function at its eighth run
