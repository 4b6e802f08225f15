"""Every kind of value through the whole road: a check, a message, the called code, a message back, the verdict."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from grader.base.errors import CheckFailed
from grader.calls import codec
from grader.calls.call import Call, Outcome
from grader.calls.framing import PREFIX, frame_sizes
from grader.calls.modes import PeakMemory
from grader.calls.responder import Responder
from grader.calls.values import MAX_BITS, Opaque, PlacedTensor, leaves, mapped, mapped_by_path
from grader.checks.assertions import Draw, Implementation, agree, exactly, points, unmodified
from grader.checks.backends import LocalBackend
from grader.checks.trial import Verdict, run_check
from grader.checks.value_text import show_value
from grader.sandbox import preload


class Distant(LocalBackend):
    """Answers in this process, but by messages, as a worker does."""

    def ask(self, call: Call) -> Outcome:
        """The outcome, there and back as bytes."""
        arrived = codec.decode_call(*_parts(codec.encode_call(call)))
        return codec.decode_outcome(*_parts(codec.encode_outcome(super().ask(arrived))))


def _parts(message: bytes) -> tuple[bytes, bytes]:
    header, _payload = frame_sizes(message[: PREFIX.size])
    rest = io.BytesIO(message[PREFIX.size :])
    return rest.read(header), rest.read()


def answered(function: Callable[..., Any], *args: Any, how: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """What a function answers, by messages."""
    student = Implementation(Distant(Responder({"f": function})))
    return student.using(**(how or {})).f(*args, **kwargs)


def verdict(theirs: Callable[..., Any], ours: Callable[..., Any], *args: Any) -> Verdict:
    """What a check says that wants the two to agree."""

    @points(1)
    def check(student: Implementation, reference: Implementation, draw: Draw) -> None:
        """They agree."""
        agree(student.f(*args), reference.f(*args))

    return run_check(check, Distant(Responder({"f": theirs})), LocalBackend(Responder({"f": ours})), seed=1)


ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


# --- arrays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_arrays_come_back(dtype: str) -> None:
    for array in (np.ones((2, 3), dtype), np.zeros((0, 3), dtype), np.array(1, dtype), np.ones((2, 3, 4), dtype).T):
        got = answered(lambda x: x, array).value
        assert type(got) is np.ndarray and got.dtype == array.dtype
        assert got.strides == array.strides and got.flags.writeable
        np.testing.assert_array_equal(got, array)


def test_arrays_of_any_layout() -> None:
    """Sliced, turned round, broadcast and read-only ones arrive with their values."""
    frozen = ARRAY.copy()
    frozen.flags.writeable = False
    for array in (ARRAY[:, ::2], ARRAY[::-1], np.broadcast_to(ARRAY, (4, 2, 3)), frozen, ARRAY[:, :0]):
        np.testing.assert_array_equal(answered(lambda x: x, array).value, array)
        np.testing.assert_array_equal(answered(lambda: array).value, array)  # noqa: B023  # called at once


def test_what_is_no_array_is_described() -> None:
    """Objects, masks, matrices, records, other byte orders, and what is too big though it takes no memory."""
    for odd, said in (
        (np.array([1, None]), "an array of dtype object and shape (2,)"),
        (np.ma.masked_array([1.0], [True]), "a MaskedArray, a kind of array"),
        (np.ones((1, 2)).view(np.matrix), "a matrix, a kind of array, of shape (1, 2)"),
        (np.zeros(2, dtype=">f4"), "an array of dtype >f4"),
        (np.zeros(2, dtype="datetime64[s]"), "an array of dtype datetime64[s]"),
        (np.zeros(2, dtype=[("a", "f4")]), "an array of dtype [('a', '<f4')]"),
        (np.broadcast_to(np.float32(0), (1 << 20, 1 << 20)), "(too big)"),
    ):
        value = answered(lambda odd=odd: odd).value
        assert isinstance(value, Opaque) and said in value.what


def test_scalars_of_numpy_are_numbers() -> None:
    made = (np.float32(1.5), np.float64(2.5), np.int64(3), np.bool_(True), np.float16(0.5))
    value = answered(lambda: made).value
    assert value == (1.5, 2.5, 3, True, 0.5)
    assert [type(one) for one in value] == [float, float, int, bool, float]


def test_arrays_are_compared() -> None:
    """Kind, shape, dtype, then values."""
    assert verdict(lambda x: x.copy(), lambda x: x, ARRAY).status == "pass"
    for wrong, said in (
        (lambda x: torch.from_numpy(x), "expected  a NumPy array of shape (2, 3)\ngot       a tensor of shape (2, 3)"),
        (lambda x: x.T, "expected  shape (2, 3)\ngot       shape (3, 2)"),
        (lambda x: x.astype(np.float64), "expected  dtype float32\ngot       dtype float64"),
        (lambda x: x + (x == 4), "first difference at [1, 1]: expected 4.0, got 5.0"),
        (lambda x: None, "Nothing was returned"),
        (lambda x: x.tolist(), "expected  a NumPy array of shape (2, 3)\ngot       ("),
    ):
        refused = verdict(wrong, lambda x: x, ARRAY)
        assert refused.status == "fail" and said in refused.message, refused.message
        assert refused.message.startswith("called    f(array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))")
    assert "got       array([[0.0" in verdict(lambda x: x, torch.from_numpy, ARRAY).message


def test_arrays_that_were_changed_are_named() -> None:
    def clear(x: Any) -> Any:
        x[0] = 0
        return x

    with pytest.raises(CheckFailed, match="modified its own input"):
        unmodified(answered(clear, ARRAY + 1))
    assert ARRAY[0, 1] == 1  # a copy


def test_shapes_of_arrays_stand_beside_an_error() -> None:
    def broken(x: Any) -> Any:
        turned = x.T
        return x @ x, turned

    assert "turned: (3, 2)" in verdict(broken, lambda x: x, ARRAY).message


def test_array() -> None:
    """An answer's one array; anything else is refused."""
    assert answered(lambda x: x, ARRAY).array().shape == (2, 3)
    with pytest.raises(CheckFailed, match="a NumPy array"):
        answered(lambda x: 1, ARRAY).array()


def test_drawn_arrays_are_drawn_tensors() -> None:
    """The same numbers."""
    arrays, tensors = Draw(3, "check").arrays, Draw(3, "check")
    for mine, theirs in (
        (arrays.normal(2, 3), tensors.normal(2, 3)),
        (arrays.uniform(4, low=0.0, dtype=np.float64), tensors.uniform(4, low=0.0, dtype=torch.float64)),
        (arrays.integers(0, 9, 5), tensors.integers(0, 9, 5)),
        (arrays.permutation(5), tensors.permutation(5)),
        (arrays.mask(2, 4), tensors.mask(2, 4)),
    ):
        assert torch.equal(torch.from_numpy(mine), theirs)


def test_a_seed_gives_the_same_numbers_everywhere() -> None:
    """Whatever the machine and the versions of torch and NumPy: a tape has the right answers to them, and not them."""
    draw = Draw(1, "check")
    assert draw.normal(3, dtype=torch.float64).tolist() == [
        -0.8052155598062924,
        -0.3176726450383498,
        1.8730719064228296,
    ]
    assert draw.uniform(2, dtype=torch.float64).tolist() == [0.5123295284992215, -0.30027431987964004]
    assert draw.integers(0, 100, 4).tolist() == [26, 67, 47, 40]
    assert draw.permutation(6).tolist() == [3, 4, 0, 5, 2, 1]
    assert draw.mask(2, 3).tolist() == [[True, True, False], [True, True, False]]
    assert draw.seed() == 232707678


def test_normal_values_are_normal() -> None:
    """By their moments, and by how many lie beyond one, two and three standard deviations."""
    values = Draw(5, "check").normal(400_000, scale=3.0, dtype=torch.float64) / 3.0
    room = 5 / 400_000**0.5  # five standard errors of a mean
    assert abs(values.mean()) < room
    assert abs(values.var() - 1) < 1.5 * room
    assert abs((values**4).mean() - 2.9) < 10 * room  # 3 of a normal value, less by 6/5 of a twelfth
    for sigmas, share in ((1, 0.3193), (2, 0.0459), (3, 0.0023)):  # the tails of a sum of twelve are a little thinner
        assert abs((values.abs() > sigmas).double().mean() - share) < room


# --- dictionaries -----------------------------------------------------------------------------------------------------


def entries(**changed: Any) -> Callable[[], Any]:
    """A function that gives a dictionary, some of it changed, in another order."""
    right = {"sum": torch.tensor([1.0, 1.0]), "rows": (ARRAY, 2), "deeper": {"max": 0.5}}
    return lambda: {name: changed.get(name, right.get(name)) for name in reversed([*right, *changed])}


def test_dictionaries_are_compared() -> None:
    """In any order; missing and further entries are named, then each is compared."""
    assert verdict(entries(), entries()).status == "pass"
    for theirs, said in (
        (lambda: {"sum": 1}, "missing: deeper, rows"),
        (entries(more=1), "unexpected: more"),
        (lambda: (1, 2), "expected  a dict with the entries `deeper`, `rows`, `sum`\ngot       (1, 2)"),
        (entries(sum=torch.tensor([1.0, 2.0])), "In entry `sum`:\nexpected"),
        (entries(rows=(ARRAY, 3)), "In entry `rows`, value 2 of the 2 returned:\nexpected  2\ngot       3"),
        (entries(deeper={"max": 0.25}), "In entry `deeper`, entry `max`:"),
        (lambda: None, "Nothing was returned"),
    ):
        refused = verdict(theirs, entries())
        assert refused.status == "fail" and said in refused.message, refused.message


def test_a_dictionary_of_ones_own_does_its_work_while_watched() -> None:
    class Late(dict):  # type: ignore[type-arg]  # a plain one at run time
        def items(self) -> Any:
            return {"weights": torch.softmax(torch.ones(2), -1)}.items()

    responder = Responder({"f": Late}, {"f": ("softmax",)})
    responder.names = {"f": lambda: Late(weights=1)}
    assert responder.respond(Call("f")).off_limits


# --- numbers and nests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 3**900, -(7**500)])
def test_whole_numbers_of_any_size(number: int) -> None:
    assert answered(lambda x: x, number).value == number
    exactly(answered(lambda: number), number)
    assert verdict(lambda: number + 1, lambda: number).status == "fail"


def test_a_whole_number_beyond_the_bound_is_described() -> None:
    assert answered(lambda: 1 << (MAX_BITS + 5)).value == Opaque(f"an integer of {MAX_BITS + 6} bits")


def test_walks() -> None:
    nest = (1, {"b": (2,), "a": [3]})
    assert list(leaves(nest)) == [1, 3, 2]
    assert mapped(nest, str) == ("1", {"b": ("2",), "a": ("3",)})
    assert mapped_by_path("x", nest, lambda path, leaf: path) == ("x.0", {"b": ("x.1.b.0",), "a": ("x.1.a.0",)})
    assert show_value((1, {"a": ARRAY, "b": (None,)})) == (
        "(1, {a: array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), b: (None,)})"
    )
    assert show_value(tuple(range(9))) == "(0, 1, 2, 3, 4, 5, …)"


# --- how a call is made -----------------------------------------------------------------------------------------------


def test_strided_arguments_lie_in_strange_ways() -> None:
    """With their values, on the side of the called code; gradients flow through."""
    x = torch.arange(24.0).reshape(2, 3, 4)

    def look(x: Any) -> Any:
        dense = x.is_contiguous() if isinstance(x, Tensor) else x.flags.c_contiguous or x.flags.f_contiguous
        return x * 1, dense

    value, dense = answered(look, x, how={"strided": True, "gradients": True}).value
    assert torch.equal(value, x) and not dense
    value, dense = answered(look, x.numpy(), how={"strided": True}).value
    assert np.array_equal(value, x.numpy()) and not dense
    assert max(answered(lambda x: x.strides, x.numpy(), how={"strided": True}).value) < 0
    assert answered(lambda x: x.shape, np.array(2.0), how={"strided": True}).value == ()
    for odd in (torch.tensor(2.0), torch.ones(3), torch.zeros(2, 0), torch.ones(3, dtype=torch.bool)):
        answer = answered(lambda x: x, odd, how={"strided": True})
        assert torch.equal(answer.tensor(), odd)
        unmodified(answer)
    with pytest.raises(CheckFailed, match="modified its own input"):
        unmodified(answered(lambda x: x.add_(1), x, how={"strided": True, "gradients": True}))
    gradient = answered(lambda x: 2 * x, x, how={"strided": True, "gradients": True}).gradients["0"]
    assert torch.equal(gradient, answered(lambda x: 2 * x, x, how={"gradients": True}).gradients["0"])


def test_arrays_whose_memory_is_used_again() -> None:
    kept = np.zeros(3)

    def again(x: Any) -> Any:
        return np.multiply(x, 2, out=kept)

    x = np.arange(3.0)
    with pytest.raises(CheckFailed, match="changed the result of an earlier one"):
        unmodified(answered(again, x, how={"again": True}))
    unmodified(answered(lambda x: x * 2, x, how={"again": True}))


def test_no_grad() -> None:
    def made(x: Tensor) -> bool:
        return (x * nn.Parameter(torch.ones(1))).requires_grad

    assert answered(made, torch.ones(1)).value is True
    assert answered(made, torch.ones(1), how={"no_grad": True}).value is False


def test_made_on_meta() -> None:
    """A class's defaults are looked at without its memory, and what a function makes without a device lands there."""
    student = Implementation(Distant(Responder({"Big": lambda: nn.Linear(1 << 15, 1 << 15), "f": torch.arange})))
    parameters = student.using(made_on_meta=True).Big().parameters()
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    assert shapes == {"weight": (1 << 15, 1 << 15), "bias": (1 << 15,)}
    assert student.using(made_on_meta=True).f(3).outcome.value.device == "meta"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_kernels_of_ours_on_meta(dtype: torch.dtype) -> None:
    """They give the shapes, dtypes and strides of the CPU, also of gradients, and refuse what does not fit."""
    preload.meta_below_python()
    here = torch.randn(3, 2, 4, dtype=dtype).transpose(0, 1).requires_grad_()
    there = here.detach().to("meta").requires_grad_()
    weight = torch.ones(4, dtype=dtype)
    for work in (
        torch.relu,
        lambda x: F.layer_norm(x, (4,)),
        lambda x: F.layer_norm(x, (4,), weight.to(x.device), weight.to(x.device)),
        lambda x: F.layer_norm(x, (3, 4)),
    ):
        expected, got = work(here), work(there)
        assert (got.shape, got.dtype, got.stride()) == (expected.shape, expected.dtype, expected.stride())
        for x, made in ((here, expected), (there, got)):
            made.sum().backward()
            assert x.grad is not None
        assert there.grad.shape == here.grad.shape
    for given in (there, here):
        with pytest.raises(RuntimeError):
            F.layer_norm(given, (5,))
        with pytest.raises(RuntimeError):
            F.layer_norm(given, (4,), torch.ones(3, dtype=dtype, device=given.device))


def test_peak_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most that was held at a time, without what was held before; torch's tensors are not in it."""
    monkeypatch.setattr(PeakMemory, "mapped", 0)  # another test may have mapped a file, which counts from then on
    array = np.ones((1000, 1000))

    def twice(x: Any) -> Any:
        first = np.exp(x)
        second = first + 1
        return float(second.sum())

    peak = answered(twice, array, how={"measures": ("peak",)}).measured("peak")
    assert 2 * array.nbytes <= peak < 2.1 * array.nbytes
    assert answered(lambda x: float(x[0, 0]), array, how={"measures": ("peak",)}).measured("peak") < 20_000
    assert not tracemalloc.is_tracing()


@pytest.mark.parametrize("disturb", [tracemalloc.stop, tracemalloc.reset_peak, tracemalloc.clear_traces])
def test_a_peak_that_was_disturbed_is_none(disturb: Callable[[], None]) -> None:
    def sly(x: Any) -> Any:
        np.ones(1 << 20)
        disturb()
        return 1

    with pytest.raises(CheckFailed, match="tracemalloc"):
        _ = answered(sly, 1, how={"measures": ("peak",)}).measured("peak")
    assert answered(sly, 1).value == 1


def test_parts_of_a_module_change_their_mode() -> None:
    made = nn.Sequential(nn.Dropout(), nn.ModuleList([nn.Dropout()]))
    module = Implementation(Distant(Responder({"M": lambda: made}))).M()
    module.eval().train("1.0")
    assert (module.is_training(), module.is_evaluating()) == (False, False)
    module.train().eval("0")
    assert (module.is_training(), module.is_evaluating()) == (False, False)
    module.train("0")
    assert module.is_training()
    with pytest.raises(CheckFailed, match="no part `encoder.layers`"):
        module.train("encoder.layers").is_training()


def test_meta_and_placed_tensors_come_back() -> None:
    student = Implementation(Distant(Responder({"f": lambda x: (x, x.mT)})))
    first, second = student.using(device="meta").f(torch.ones(2, 3)).outcome.value
    assert isinstance(first, PlacedTensor) and first.device == second.device == "meta"
    assert tuple(second.tensor.shape) == (3, 2)
