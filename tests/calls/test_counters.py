"""What checks measure of a call: matrix products, what is saved for a backward pass, and objects that are kept."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from grader.base.errors import CheckFailed
from grader.calls import builtins, counters
from grader.calls.call import Call, Options, Outcome
from grader.calls.codec import decode_call, decode_outcome, encode_call, encode_outcome
from grader.calls.framing import PREFIX
from grader.calls.responder import Responder
from grader.calls.values import HandleId
from grader.checks.backends import LocalBackend
from grader.checks.implementation import Handle, Implementation


class Tally:
    """An object that is no module: it goes through like a list, and keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    @property
    def length(self) -> int:
        return len(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, place: int) -> Tensor:
        return self.kept[place]

    def add(self, x: Tensor, *, times: int = 1) -> Tensor:
        self.kept += [x] * times
        return x * len(self.kept)


def asked(**names: object) -> Implementation:
    """An implementation of these names."""
    implementation = Implementation(LocalBackend(Responder(names)))
    implementation._backend.begin_check(1)
    return implementation


def test_object_is_kept() -> None:
    """Its methods and attributes are there by name, its state persists, and it can be handed on."""
    mine = asked(Tally=Tally, total=lambda tallies: sum(len(tally) for tally in tallies))
    tally = mine.using(keep=True).Tally()
    assert isinstance(tally, Handle)
    assert tally.attribute("length").value == 0
    x = torch.ones(2)
    assert torch.equal(tally.method("add", x).tensor(), x)
    got = tally.using(gradients=True).method("add", x, times=2)
    assert got.gradients["0"] is not None
    assert got.exchange.shown == "Tally().add([1.0, 1.0], times=2)"
    assert tally.attribute("length").value == 3
    assert mine.total((tally, tally)).value == 6
    with pytest.raises(CheckFailed, match="no attribute 'nothing'"):
        tally.method("nothing")


def test_object_is_shown_where_it_is_not_kept() -> None:
    """What is no value stays opaque, and a value that should have been an object is seen."""
    assert not isinstance(asked(f=object).f(), Handle)
    assert not isinstance(asked(f=lambda: 3).using(keep=True).f(), Handle)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda x: x @ x.mT, {"float32": 2 * 4 * 3 * 5 * 3}),
        (lambda x: F.linear(x, torch.ones(7, 5), torch.ones(7)), {"float32": 2 * 4 * 3 * 5 * 7}),
        (lambda x: torch.einsum("hij,hkj->hik", x, x), {"float32": 2 * 4 * 3 * 5 * 3}),
        (lambda x: x[0] @ x[0, 0], {"float32": 2 * 3 * 5}),
        (lambda x: x.double() @ x.mT.double(), {"float64": 2 * 4 * 3 * 5 * 3}),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), {"float32": 2 * 4 * 3 * 3 * 10}),
        (lambda x: x * x + x.sum(), {}),
    ],
)
def test_matrix_products_are_counted(work: object, expected: dict[str, int]) -> None:
    """Two operations for each multiplication, by dtype, whatever the product is called."""
    with torch.no_grad():
        assert asked(f=work).using(measures=("products",)).f(torch.ones(4, 3, 5)).measured("products") == expected


def test_products_of_autocast_and_of_a_backward_pass() -> None:
    """Autocast moves them to the lower dtype; the backward pass of a layer has two more."""

    def step(x: Tensor) -> Tensor:
        layer = nn.Linear(5, 7, bias=False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = layer(x).sum()
        loss.backward()
        return x

    assert asked(f=step).using(measures=("products",)).f(torch.ones(3, 5)).measured("products") == {
        "bfloat16": 2 * 2 * 3 * 5 * 7
    }


class Deep(nn.Module):
    """Layers, each under `wrap`."""

    def __init__(self, layers: int, kind: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 4)) for _ in range(layers))
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            reentrant = self.kind == "reentrant"
            x = layer(x) if self.kind == "plain" else checkpoint(layer, x, use_reentrant=reentrant)
        return x


@pytest.mark.parametrize(("kind", "most", "least"), [("plain", 200, 100), ("reentrant", 12, 0), ("other", 12, 0)])
def test_what_is_saved_is_counted(kind: str, most: int, least: int) -> None:
    """A checkpointed layer keeps its input at most; parameters are not counted."""
    saved = []
    for layers in (2, 3):
        model = asked(Deep=Deep).Deep(layers, kind)
        x = torch.ones(3, 4, requires_grad=True)
        saved.append(model.using(gradients=True, measures=("saved",))(x).measured("saved"))
    assert least <= saved[1] - saved[0] <= most


def test_they_travel() -> None:
    """Options and counts are the same on the other side."""
    options = Options(keep=True, measures=("products", "saved"), seed=3)
    data = encode_call(Call("add", (torch.ones(2),), handle=2, options=options, own="method"))
    header, _payload = PREFIX.unpack(data[: PREFIX.size])
    body = data[PREFIX.size :]
    back = decode_call(body[:header], body[header:])
    assert (back.options, back.own, back.is_authors) == (options, "method", True)
    data = encode_outcome(Outcome(HandleId(1), measured={"products": {"float32": 12}, "saved": 5}))
    header, _payload = PREFIX.unpack(data[: PREFIX.size])
    body = data[PREFIX.size :]
    answer = decode_outcome(body[:header], body[header:])
    assert (answer.measured, answer.value) == ({"products": {"float32": 12}, "saved": 5}, HandleId(1))


def test_an_op_that_was_given_other_work_runs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python object of an op can be changed: which op runs and counts is asked of torch's C++."""
    op = torch.ops.aten.sign.default
    x = torch.ones(2, 3)

    def other(given: Tensor) -> Tensor:
        return given @ given.mT

    counters._OPS.clear()
    monkeypatch.setattr(op, "_op", other)
    monkeypatch.setattr(op, "_handle", torch.ops.aten.mm.default._handle)
    with counters.LargestStorage() as largest, counters.MatrixProducts() as products:
        assert torch.equal(torch.sign(x), x)
        x @ x.mT
    assert largest.measured == 6 and products.measured["float32"] == 2 * 2 * 3 * 2
    counters._OPS.clear()


def test_the_function_at_our_key_rests_once_many_ops_have_passed_it() -> None:
    """It slows every op of a process that watches for built-ins all the time, and to exchange it takes milliseconds."""
    x = torch.ones(2, 2)
    off_limits = builtins.BuiltIns(["gelu"])
    with off_limits:
        with counters.MatrixProducts():
            x @ x
        with off_limits:
            x.add(x)
        assert counters._Fallback.looks
        for _op in range(counters.UNSEEN + 1):
            x.add(x)
        with off_limits:
            assert not counters._Fallback.looks
            with counters.MatrixProducts() as products:
                x @ x
        assert products.measured["float32"] == 2 * 2 * 2 * 2


class Key(str):
    """A name that is equal to no other."""

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return False


def test_nothing_is_registered_at_our_keys() -> None:
    """As `torch.library` would: what looks for built-ins there would be gone."""
    builtins._register_watchers()
    for key in ("TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode", "Fake", b"Fake", Key("Fake")):
        with pytest.raises(RuntimeError, match="the grader looks there"):
            torch._C._dispatch_library("IMPL", "aten", "", "here", 1).impl(
                "sign", key, torch.library.fallthrough_kernel, False
            )
        with pytest.raises(RuntimeError, match="the grader looks there"):
            torch._C._dispatch_library("IMPL", "_", key, "here", 1)
    with torch.library._scoped_library("for_this_test", "DEF") as library:
        library.define("halved(Tensor x) -> Tensor")
        library.impl("halved", lambda x: x / 2, "CPU")
        assert torch.ops.for_this_test.halved(torch.ones(1)).item() == 0.5
