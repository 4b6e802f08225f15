"""What is said of parameters whose names do not fit, and of errors that are not the call's own."""

from __future__ import annotations

import linecache
import time
from typing import Any

import pytest
import torch
from torch import nn

from grader.base.errors import CheckFailed
from grader.calls.call import Call, Outcome, Raised
from grader.calls.responder import Responder
from grader.checks.assertions import agree
from grader.checks.backends import LocalBackend
from grader.checks.implementation import Handle, Implementation
from grader.checks.learner_errors import learners_error


class Projection(nn.Module):
    """One parameter misspelt, one too many, one of another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.W_qeury = nn.Linear(2, 2, bias=False)
        self.W_key = nn.Linear(3, 2, bias=False)
        self.spare = nn.Linear(1, 1, bias=False)


def module_of(kind: type[nn.Module]) -> Handle:
    """A module of this class, as a check has it."""
    made: Handle = Implementation(LocalBackend(Responder({"Module": kind}))).Module()
    return made


def said_of(kind: type[nn.Module], values: dict[str, torch.Tensor]) -> str:
    """What is said where these values do not fit a module of this class."""
    module = module_of(kind)
    with pytest.raises(CheckFailed) as caught:
        module.load_parameters(values)
        module.is_training()
    return str(caught.value.message)


def test_an_outline_holds_no_random_number() -> None:
    """Shapes, the whole number that a vector lies around, and which names are one parameter."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(3, 2), nn.Embedding(3, 2)
            self.head = nn.Linear(2, 3, bias=False)
            self.head.weight = self.wte.weight
            self.norm = nn.LayerNorm(2)

    outline = module_of(Tied).outline()
    assert {name: set(value.flatten().tolist()) for name, value in outline.items()} == {
        "wte.weight": {0.0}, "wpe.weight": {1.0}, "head.weight": {0.0},
        "norm.weight": {1.0}, "norm.bias": {0.0},
    }  # fmt: skip
    assert outline["wpe.weight"].shape == (3, 2)


def test_missing_extra_misspelt_and_misshapen_are_named() -> None:
    """Each in a line of its own, and what a misspelt name was meant to be."""
    said = said_of(Projection, {"W_query.weight": torch.ones(2, 2), "W_key.weight": torch.ones(2, 2)})
    assert "missing: W_query.weight" in said
    assert "unexpected: W_qeury.weight, spare.weight" in said
    assert "Should W_qeury.weight be W_query.weight?" in said
    assert "W_key.weight has shape (2, 3), expected (2, 2)" in said


def test_thousands_of_names_hold_nobody_up() -> None:
    """A process may say of itself what it likes, and no deadline is kept while that is put into words."""

    class Endless(Responder):
        def _outcome_with_reads(self, call: Call) -> Outcome:
            outcome = super()._outcome_with_reads(call)
            if call.name == "load_parameters":
                shapes = tuple(f"W_qeury.{number}weight: (2, 2)" for number in range(4000))
                outcome.value = {"missing": ("W_query.weight",) * 4000, "shapes": shapes}
            return outcome

    module = Implementation(LocalBackend(Endless({"Projection": Projection}))).Projection()
    began = time.process_time()
    with pytest.raises(CheckFailed):
        module.load_parameters({"W_query.weight": torch.ones(2, 2)})
        module.is_training()
    assert time.process_time() - began < 5


class Fused(nn.Module):
    """One layer in the place of three: its name is near that of a parameter of another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.W_quey = nn.Linear(2, 6, bias=False)


def test_name_of_another_shape_is_no_misspelling() -> None:
    """What has another shape than the missing parameter is not asked about."""
    said = said_of(Fused, {"W_query.weight": torch.ones(2, 2), "W_key.weight": torch.ones(2, 2)})
    assert "unexpected: W_quey.weight" in said
    assert "Should" not in said


class Wrapped(nn.Module):
    """All layers in a ModuleDict, as nanoGPT has them."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(3, 2), "ln_f": nn.LayerNorm(2)})


def test_name_below_another_module_is_told() -> None:
    """Also where the values were made from the module's own names."""
    for own in ({}, module_of(Wrapped).parameters()):
        said = said_of(Wrapped, own | {"wte.weight": torch.ones(3, 2), "ln_f.weight": torch.ones(2)})
        assert "Should transformer.wte.weight be wte.weight?" in said
        assert "Should transformer.ln_f.weight be ln_f.weight?" in said


class Twice(nn.Module):
    """A layer under its name, and in a Sequential beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.c_fc = nn.Linear(2, 2)
        self.layers = nn.Sequential(self.c_fc, nn.Tanh())


def test_second_name_of_a_layer_is_told() -> None:
    """What is not asked for is said to be a parameter that is."""
    said = said_of(Twice, {"c_fc.weight": torch.ones(2, 2), "c_fc.bias": torch.ones(2)})
    assert "unexpected: layers.0.weight, layers.0.bias" in said
    assert "layers.0.weight is c_fc.weight under a second name" in said
    assert "layers.0.bias is" not in said


def _by_its_sum_on_meta(x: torch.Tensor) -> torch.Tensor:
    return x * float(x.sum()) if str(x.device) == "meta" else x * x.sum()


def _written_over(x: torch.Tensor) -> torch.Tensor:
    powers = x.exp()
    result = powers.square()
    powers += 1
    return result


def test_errors_say_where_the_tensors_were() -> None:
    """An error on `meta` says what `meta` is, and elsewhere it does not."""
    implementation = Implementation(LocalBackend(Responder({"scale": _by_its_sum_on_meta})))
    with pytest.raises(CheckFailed) as caught:
        implementation.using(device="meta").scale(torch.ones(2))
    assert "The device `meta` has shapes but no values" in caught.value.message
    with pytest.raises(CheckFailed) as caught:
        implementation.scale("no tensor")
    assert "`meta`" not in caught.value.message


class _NoSuper(nn.Module):
    """Its class forgets `super().__init__()`, and has no layer that would tell at once."""

    def __init__(self) -> None:
        self.p = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class _NoSuperWithALayer(_NoSuper):
    def __init__(self) -> None:
        self.layer = nn.Linear(2, 2)


def _named_otherwise(x: torch.Tensor, attn_mask: torch.Tensor | None = None) -> torch.Tensor:
    return x if attn_mask is None else _named_otherwise(x, mask=attn_mask)  # type: ignore[call-arg]


def test_common_slips_have_a_sentence() -> None:
    """A forgotten super().__init__(), a renamed argument, a missing return and a line of a notebook."""
    names = {"Bare": _NoSuper, "Layered": _NoSuperWithALayer, "attention": _named_otherwise, "silent": lambda x: None}
    implementation = Implementation(LocalBackend(Responder(names, is_own=lambda filename: filename == __file__)))
    for name in ("Bare", "Layered"):
        with pytest.raises(CheckFailed) as caught:
            getattr(implementation, name)()(torch.ones(2))
        assert "`super().__init__()` must come first" in caught.value.message
    with pytest.raises(CheckFailed) as caught:
        implementation.attention(torch.ones(2), mask=None)
    assert "Was one renamed?" in caught.value.message
    with pytest.raises(CheckFailed) as caught:  # a call of the learner's own, that the caller has no part in
        implementation.attention(torch.ones(2), torch.ones(2))
    assert "renamed" not in caught.value.message
    with pytest.raises(CheckFailed) as caught:
        implementation.attention(torch.ones(2), None, None)
    assert "In a method `self` comes first." in caught.value.message
    for expected in (torch.ones(2), (torch.ones(2), torch.ones(2))):
        with pytest.raises(CheckFailed) as caught:
            agree(implementation.silent(torch.ones(2)), expected)
        assert "Nothing was returned." in caught.value.message
    magic = Raised("SyntaxError", "invalid syntax", file="a.py", line=1, source="%matplotlib inline")
    assert "are for notebooks" in learners_error(magic, "importing a.py").message


def test_line_of_an_error_that_comes_without_its_text() -> None:
    """Python says of some syntax errors only on which line they are."""
    with pytest.raises(SyntaxError) as caught:
        compile("x = 1\nreturn x\n", "outside.py", "exec")
    linecache.cache["outside.py"] = (14, None, ["x = 1\n", "return x\n"], "outside.py")
    caught.value.text = None
    assert Responder({}).describe(caught.value).source == "return x"


def test_what_the_sandbox_refuses_is_told() -> None:
    """Who is refused a process learns that a sandbox did it, and nobody else does."""
    refused = learners_error(Raised("PermissionError", "[Errno 1] Operation not permitted"), "softmax(x)").message
    assert "in a sandbox" in refused
    for said in ("Operation not permitted", "can't start new thread"):  # the threads of torch's profiler, and of Python
        assert "in a sandbox" in learners_error(Raised("RuntimeError", said), "softmax(x)").message
    assert "in a sandbox" in learners_error(Raised("URLError", "<urlopen error>"), "softmax(x)").message
    assert (
        "in an empty folder of its own"
        in learners_error(Raised("FileNotFoundError", "input.txt"), "softmax(x)").message
    )
    assert "sandbox" not in learners_error(Raised("ValueError", "no"), "softmax(x)").message


class _BackwardNotWritten(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def test_function_is_written_whose_backward_is_not() -> None:
    """It is no untouched stub: the line that is to be written is named."""
    names = {"doubled": _BackwardNotWritten.apply}
    implementation = Implementation(LocalBackend(Responder(names, is_own=lambda filename: filename == __file__)))
    with pytest.raises(CheckFailed) as caught:
        implementation.using(gradients=True).doubled(torch.ones(2))
    assert caught.value.status == "fail"
    assert "doubled raised NotImplementedError\nat line" in caught.value.message
    assert "in backward: raise NotImplementedError" in caught.value.message


def _takes_a_pair_for_a_tensor(x: torch.Tensor) -> torch.Tensor:
    pair = (x, None)
    return pair[:, -1]  # type: ignore[call-overload, no-any-return]  # what is wrong with it


def test_pair_is_shown_among_the_shapes() -> None:
    """Who takes what a model returns for the logits sees that there are two."""
    names = {"last": _takes_a_pair_for_a_tensor}
    implementation = Implementation(LocalBackend(Responder(names, is_own=lambda filename: filename == __file__)))
    with pytest.raises(CheckFailed) as caught:
        implementation.last(torch.ones(1, 2))
    assert "shapes there: x: (1, 2), pair: ((1, 2), None)" in caught.value.message


def test_backward_pass_that_fails_is_no_error_of_the_call() -> None:
    """What autograd raises is said of the backward pass, with what leads to it."""
    implementation = Implementation(LocalBackend(Responder({"squares": _written_over}, is_own=lambda filename: False)))
    with pytest.raises(CheckFailed) as caught:
        implementation.using(gradients=True).squares(torch.ones(2))
    assert "The backward pass through what squares gave raised RuntimeError" in caught.value.message
    assert "overwritten in place" in caught.value.message
