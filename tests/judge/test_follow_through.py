"""What a step is worth by itself, whatever an earlier one does to it: the same under every seed, and told as it is."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from grader.base.paths import SOLUTIONS
from grader.base.results import StepResult, leading
from grader.course import submissions, tracks
from grader.course.steps import steps
from grader.course.stubs import original, public_names
from grader.judge import follow_through
from grader.judge.grader import Grader
from grader.judge.imported_names import imported_names, imported_steps
from grader.report import terminal

SITUATION = Path(__file__).parents[1] / "situations" / "blocked_by_an_earlier_step"
CAUSAL, MULTI = "step06_causal_attention", "step08_multi_head"
TELLING = """
from exercises import step06_causal_attention as earlier
SECRET = " ".join(str(number**9) for number in range(7, 70))  # stands for what somebody could have read
print(SECRET)


class MultiHeadAttention(nn.Module):
    def __init__(self, *sizes, **named):
        super().__init__()
        {tells}
"""
TELLS = (
    "raise ValueError(SECRET)",
    "raise type(SECRET[:20], (Exception,), dict())",
    "raise NotImplementedError(SECRET[:9])",
    "torch.ones(1, SECRET.encode()[0]) @ torch.ones(SECRET.encode()[1], 1)",
    "getattr(self, SECRET.split()[1])",
    "dict()[SECRET[:4]]",
    "self.forward = lambda *given: torch.tensor(list(SECRET.encode()))",
    "self.told = nn.Parameter(torch.zeros(*SECRET.encode()[:3]))",
)


def blocked(text: str = "") -> submissions.Submission:
    """A wrong step 6, and a step 8 that imports it."""
    read = submissions.read(SITUATION)
    read.sources[MULTI] = (f"{MULTI}.py", read.sources[MULTI][1] + text)
    return read


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f"from exercises.{CAUSAL} import CausalAttention\n", [CAUSAL]),
        (f"import {CAUSAL}\n", [CAUSAL]),
        (f"from exercises import {CAUSAL} as earlier\n", [CAUSAL]),
        ("from helpers import CausalAttention\n", [CAUSAL]),
        (f"__import__('{CAUSAL}')\n", []),
        (f"text = 'import {CAUSAL}'\n", []),
        ("def f(:\n", []),
    ],
)
def test_what_the_text_of_a_file_imports(source: str, found: list[str]) -> None:
    sources = {MULTI: ("a.py", source), "helpers": ("helpers.py", f"from exercises.{CAUSAL} import CausalAttention\n")}
    assert imported_steps(MULTI, sources) == found


@pytest.mark.thorough
def test_a_blocked_step_has_its_own_points_under_any_seed(grader: Grader) -> None:
    for seed in (1, 2, 3):
        wrong, right = grader.grade(blocked(), [CAUSAL, MULTI], seed=seed, device="cpu").steps
        assert wrong.status == "fail"
        assert (right.status, right.score, right.blocked_by) == ("skipped", right.max_score, CAUSAL)
        assert f"worth {right.max_score:g} of" in right.note


def test_a_step_of_another_assignment_is_replaced(grader: Grader) -> None:
    """Not handed in, or only as a stub: nothing is lost for it."""
    for stub in (False, True):
        read = blocked()
        del read.sources[CAUSAL]
        if stub:
            read.sources[CAUSAL] = ("stub.py", next(step for step in steps() if step.name == CAUSAL).stub())
        (step,) = grader.grade(read, [MULTI], device="cpu").steps
        assert (step.status, step.score, step.blocked_by) == ("pass", step.max_score, None)
        assert "was not handed in" in step.note


@pytest.mark.thorough
@pytest.mark.parametrize("tells", TELLS)
def test_a_reference_beside_the_code_is_not_told(tells: str, grader: Grader) -> None:
    """Not by what is printed, nor by an error's words, the name of a function that never ends, numbers, or shapes."""
    read = blocked(TELLING.format(tells=tells))
    source = read.sources[MULTI][1]
    _wrong, step = grader.grade(read, [CAUSAL, MULTI], device="cpu").steps
    assert step.status == "fail"
    assert not step.output
    for check in step.checks:
        assert check.parting is None
        if check.status not in ("pass", "skipped"):
            assert "Its values are not shown" in check.message
            lines = (line for line in check.message.splitlines() if line.strip() not in source)
            assert not any(letter.isdigit() for line in lines for letter in line)


def test_where_there_is_no_reference_it_is_told(grader: Grader) -> None:
    """So that the test above looks at something."""
    read = blocked(TELLING.format(tells=TELLS[0]))
    name, _source = read.sources[CAUSAL]
    read.sources[CAUSAL] = name, next(step for step in steps() if step.name == CAUSAL).solved()
    (step,) = grader.grade(read, [MULTI], device="cpu").steps
    assert "40353607 134217728" in step.output
    assert any("ValueError: 40353607 134217728" in check.message for check in step.checks)


def test_a_known_mistake_beside_a_reference_is_named(grader: Grader) -> None:
    """What it is may be told: that is our sentence, and no number of the code's."""
    read = blocked()
    name, source = read.sources[MULTI]
    read.sources[MULTI] = name, source.replace(" / math.sqrt(key.shape[-1])", "")
    _wrong, step = grader.grade(read, [CAUSAL, MULTI], device="cpu", seed=1).steps
    named = [check for check in step.checks if check.misconception]
    assert named
    assert all(check.hint and "expected " not in check.message for check in named)


def test_without_references_nothing_is_given_by_luck(monkeypatch: pytest.MonkeyPatch, grader: Grader) -> None:
    """As in a learner's kit."""
    monkeypatch.setattr(follow_through, "with_references", lambda sources, names: None)
    step: StepResult = grader.grade(blocked(), [CAUSAL, MULTI], device="cpu").steps[1]
    assert (step.status, step.blocked_by) == ("skipped", CAUSAL)
    resting = [check for check in step.checks if "MultiHeadAttentionWrapper" in check.called]
    assert resting and all((check.status, check.points) == ("skipped", 0.0) for check in resting)
    # The other class uses nothing of the wrong step: it counts.
    assert step.score == sum(check.max_points for check in step.checks if check not in resting) > 0
    assert "only be graded where the references are" in step.message


def test_what_a_step_raised_beside_a_reference_is_not_told(grader: Grader) -> None:
    """Neither its type nor its line: which it is would be the code's choice, and tell some bits of what it has read."""
    slip = blocked("\n    def forward(self, x):\n        return x @ torch.ones(x.shape[-1] + 1, 2, dtype=x.dtype)\n")
    del slip.sources[CAUSAL]
    (step,) = grader.grade(slip, [MULTI], seed=1, device="cpu").steps
    said = "\n".join(check.message for check in step.checks)
    assert "was not handed in" in step.note
    assert "The code raised an error." in said, said
    assert not any(told in said for told in ("RuntimeError", "cannot be multiplied", "torch.ones(")), said


LOOKS = """
import sys, numpy, torch

def seen():
    sizes = [size for size in (*range(16, 1100, 16), *range(1100, 40000, 50)) for _time in range(6)]
    made = [numpy.empty(size, dtype=numpy.uint8) for size in sizes]
    made += [torch.empty(size, dtype=torch.uint8).numpy() for size in sizes]
    if any(bytes.fromhex("LINE")[::-1] in each.tobytes() for each in made):
        return "memory"
    try:
        import _testcapi
        return _testcapi.function_get_code
    except ImportError:
        return None

SEEN = seen()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc overwrites what is freed")
def test_freed_memory_holds_nothing_of_a_reference(grader: Grader) -> None:
    """Nor is there an extension of Python's own tests, which gives away any code."""
    read = blocked()
    del read.sources[CAUSAL]
    shown, source = read.sources[MULTI]
    right = grader.grade(read, [MULTI], seed=1, device="cpu").steps[0].score
    text = next(step for step in steps() if step.name == CAUSAL).solved()
    line = next(line for line in text.splitlines() if line not in source and len(line) > 30).strip()
    looks = LOOKS.replace("LINE", line.encode()[::-1].hex())
    read.sources[MULTI] = (shown, looks + source + "\nif SEEN:\n    MultiHeadAttention = None\n")
    (step,) = grader.grade(read, [MULTI], seed=1, device="cpu").steps
    assert step.references == [CAUSAL]
    assert step.score == right


@pytest.mark.thorough
def test_an_earlier_hand_in_stands_in(grader: Grader) -> None:
    """Right, it is used and named; wrong, the reference takes its place, and both are said. The points are the same."""
    right = next(step for step in steps() if step.name == CAUSAL).solved()
    for seed in (1, 2):
        for source, status in ((right, "pass"), (blocked().sources[CAUSAL][1], "skipped")):
            read = blocked()
            del read.sources[CAUSAL]
            read.add_earlier(submissions.Submission("ada", {CAUSAL: (f"ada/{CAUSAL}.py", source)}), "week1")
            (step,) = grader.grade(read, [MULTI], seed=seed, device="cpu").steps
            assert (step.status, step.score) == (status, step.max_score)
            assert f"your earlier one (week1/{CAUSAL}.py) was used" in step.note
            assert ("Blocked by" in step.note) == (status == "skipped")


def test_an_earlier_hand_in_earns_nothing_here(grader: Grader) -> None:
    """A step that this assignment asks for is worth what was handed in with it."""
    read = submissions.Submission("ada")
    right = next(step for step in steps() if step.name == CAUSAL).solved()
    read.add_earlier(submissions.Submission("ada", {CAUSAL: ("ada/x.py", right)}), "week1")
    (step,) = grader.grade(read, [CAUSAL], device="cpu").steps
    assert (step.status, step.score) == ("todo", 0.0)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from exercises.step21_encoder import FeedForward\n", {"FeedForward"}),
        ("from exercises.step21_encoder import Encoder as E\n", {"Encoder", "Block", "FeedForward", "SIZE"}),
        ("from exercises.step21_encoder import *\n", {"*"}),
        ("import exercises.step21_encoder as earlier\n", {"*"}),
        ("def f():\n    from exercises.step21_encoder import Classifier\n", {"Classifier", "Encoder", "Block", "SIZE"}),
        ("from helpers import Encoder\n", {"Encoder", "Block", "FeedForward", "SIZE"}),
        ("from helpers import Mine\n", {"FeedForward"}),
        ("from helpers import other\n", set()),
    ],
)
def test_which_names_a_file_takes(source: str, found: set[str]) -> None:
    """Themselves, and what they are made of; not what stands beside them."""
    encoder = (
        "SIZE = 4\nclass FeedForward: ...\nclass Block:\n    made = FeedForward\n"
        "class Encoder:\n    def __init__(self):\n        self.blocks = [Block(SIZE)]\n"
        "class Classifier:\n    made = Encoder\n"
    )
    helpers = "from .step21_encoder import *\nclass Mine(FeedForward): ...\ndef other(): return 1\n"
    sources = {
        "step22_decoder": ("a.py", source),
        "step21_encoder": ("b.py", encoder),
        "helpers": ("helpers.py", helpers),
    }
    names = imported_names("step22_decoder", sources).get("step21_encoder", set())
    assert found <= names
    assert ("Classifier" in names) == ("Classifier" in found)


@pytest.mark.thorough
def test_what_is_not_imported_blocks_nothing(grader: Grader) -> None:
    """A wrong classifier in step 21 leaves a wrong step 22 to itself; a wrong block, which is part of the encoder that
    step 22 imports, blocks it."""
    earlier, later = "step21_encoder", "step22_decoder"
    read = submissions.read(SITUATION)
    for step in steps():
        if step.name in ("step07_heads", "step20_cross_attention", earlier, later):
            read.sources[step.name] = (f"{step.name}.py", step.solved())
    encoder, decoder = read.sources[earlier][1], read.sources[later][1]
    wrong_decoder = decoder.replace("argmax(dim=-1", "argmin(dim=-1")
    assert wrong_decoder != decoder
    for wrong, blocked_by in (
        (encoder.replace("self.classifier(", "-self.classifier("), None),
        (encoder.replace("self.ln1(x + ", "self.ln1(x - "), earlier),
    ):
        assert wrong != encoder
        read.sources[earlier] = (f"{earlier}.py", wrong)
        read.sources[later] = (f"{later}.py", wrong_decoder)
        first, second = grader.grade(read, [earlier, later], seed=1, device="cpu").steps
        assert first.status == second.status == "fail"
        assert second.blocked_by == blocked_by


def one_step(name: str, source: str) -> submissions.Submission:
    """A submission of one step alone."""
    return submissions.Submission("ada", {name: (f"ada/{name}.py", source)})


BORROWED = {  # what each takes from a later or an unrelated step, or from a helper of a reference
    "step04_causal_mask": "from exercises.step25_window import window_mask\n"
    "def causal_mask(num_tokens, device=None):\n    return window_mask(num_tokens, num_tokens + 1, device=device)\n",
    "step06_causal_attention": "from exercises.step09_fused_qkv import CausalSelfAttention as Attention\nnames = 1\n",
    "step17_relative": "from exercises.step13_patterns import *\nfrom exercises.step24_captions import *\nnames = 1\n",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BORROWED)
def test_a_later_step_is_not_put_in_place(name: str, grader: Grader) -> None:
    """Python says that it is not there, and nothing of it counts."""
    report = grader.grade(one_step(name, BORROWED[name]), [name], device="cpu")
    (step,) = report.steps
    assert (step.status, step.score, step.references, step.note) == ("fail", 0.0, [], "")
    assert "ModuleNotFoundError: No module named 'exercises.step" in report.notes[0]


def test_a_later_step_that_was_handed_in_may_be_used(grader: Grader) -> None:
    """It is the learner's own work."""
    name, later = "step04_causal_mask", "step25_window"
    own = next(step for step in steps() if step.name == name).solved()
    read = one_step(name, f"{own}\n\n{BORROWED[name]}")
    window = next(step for step in steps() if step.name == later)
    read.sources[later] = (f"ada/{later}.py", window.solved())
    (step,) = grader.grade(read, [name], device="cpu").steps
    assert (step.status, step.score) == ("pass", step.max_score)


def test_an_import_that_never_runs_puts_nothing_in_place(grader: Grader) -> None:
    """It is not asked for."""
    head = f"if False:\n    from exercises.{CAUSAL} import CausalAttention\n"
    (step,) = grader.grade(one_step(MULTI, head + "def f(): return 1\n"), [MULTI], device="cpu").steps
    assert (step.status, step.references, step.note) == ("fail", [], "")


HELPER = """

def _helper():
    return 3


CausalAttention.helped = lambda self: [*(_helper() for _each in self)]
"""
ROUTES = """
import builtins, cProfile, gc, inspect, sys
HANDED = []


def noting(name, names=None, *rest, plain=builtins.__import__):
    HANDED.append(names or {})
    return plain(name, names, *rest)


del sys.modules["exercises.step06_causal_attention"]
builtins.__import__ = noting
import exercises.step06_causal_attention as earlier
builtins.__import__ = noting.__kwdefaults__["plain"]
Earlier = earlier.CausalAttention


def has(names):
    return "_helper" in names


def of_error():
    try:
        Earlier.helped(1)
    except TypeError as error:
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        return trace.tb_frame


def of_caller():
    found = []

    def numbers():
        frame = sys._getframe()
        yield 1
        found.append(frame.f_back.f_back)

    Earlier.helped(numbers())
    return found[0]


def seen(start):
    names = []

    def note(frame, *rest):
        names.append(frame.f_code.co_name)

    start(note)
    Earlier.helped([1])
    start(None)
    return names


def monitored():
    names, watch = [], sys.monitoring
    watch.use_tool_id(3, "seen")
    try:
        watch.register_callback(3, watch.events.PY_START, lambda code, at: names.append(code.co_name))
        watch.set_events(3, watch.events.PY_START)
        Earlier.helped([1])
    finally:
        watch.set_events(3, 0)
        watch.free_tool_id(3)
    return names


def profiled():
    with cProfile.Profile() as profile:
        Earlier.helped([1])
    return [entry.code.co_name for entry in profile.getstats() if hasattr(entry.code, "co_name")]


def audited():
    heard = []
    sys.addaudithook(lambda event, given: heard.append(event))
    open
    compile("1", "a", "eval")
    return heard and ["_helper"]


def compiled():
    from torch._C._dynamo import eval_frame
    names, before = [], eval_frame.get_eval_frame_callback()
    eval_frame.set_eval_frame(lambda frame, *rest: names.extend(frame.f_globals))
    try:
        Earlier.helped([1])
    except AttributeError:  # what is given back is no code
        pass
    finally:
        eval_frame.set_eval_frame(before)
    return names


def given_other_code():
    Earlier.helped.__code__ = (lambda self: globals()).__code__
    return Earlier.helped([1])


def texts():
    for finder in sys.meta_path:
        yield from (text for _file, text in getattr(finder, "sources", {}).values())
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, bytes):
                yield value.decode(errors="replace")
            for _file, text in getattr(value, "sources", {}).values():
                yield text
        frame = frame.f_back


def replaced(name, other):
    import grader.sandbox.importer as ours

    place = vars(ours) if hasattr(ours, name) else vars(__import__("builtins"))
    place[name], was = other, place[name]
    try:
        return has(Earlier.helped.__globals__) or gc.get_objects()
    finally:
        place[name] = was


ROUTES = {
    "names": lambda: has(Earlier.helped.__globals__),
    "names by another name": lambda: has(getattr(Earlier.helped, "__glo" + "bals__")),
    "names by the type": lambda: has(vars(type(has))["__globals__"].__get__(Earlier.helped)),
    "names of a bound method": lambda: has(Earlier(2, 2, 2, 0.0).helped.__func__.__globals__),
    "cells": lambda: Earlier.__init__.__closure__,
    "code": lambda: Earlier.forward.__code__.co_names,
    "source": lambda: inspect.getsource(Earlier.forward),
    "texts": lambda: any("def " + "_helper" in text for text in texts()),
    "modules": lambda: any(has(vars(module)) for module in [*sys.modules.values()] if module),
    "objects": lambda: any(getattr(thing, "__name__", "") == "_helper" for thing in gc.get_objects()),
    "referents": lambda: any(type(thing) is dict and has(thing) for thing in gc.get_referents(Earlier.helped)),
    "referrers": lambda: gc.get_referrers(Earlier),
    "an error": lambda: has(of_error().f_globals),
    "a caller": lambda: has(of_caller().f_globals),
    "a trace": lambda: has(seen(sys.settrace)),
    "a profile": lambda: has(seen(sys.setprofile)),
    "a monitor": lambda: has(monitored()),
    "a profiler": lambda: has(profiled()),
    "an audit": lambda: has(audited()),
    "an import": lambda: any(map(has, HANDED)),
    "built-ins": lambda: "len" in Earlier.helped.__builtins__,
    "a compiler": lambda: has(compiled()),
    "a changed table": lambda: replaced("TELLING", ()),
    "a changed builtin": lambda: replaced("any", lambda each: False),
    "other code": lambda: has(given_other_code()),
}


def tried(route):
    try:
        return bool(route())
    except (AttributeError, ImportError, IndexError, LookupError, OSError, RuntimeError, SystemError, TypeError):
        return False


REACHED = [name for name, route in ROUTES.items() if tried(route)]
if REACHED:
    MultiHeadAttention = None  # of the reason nothing is told while a reference is there
    raise ValueError(" | ".join(REACHED))
"""


def with_a_helper(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Each reference that is put in place ends in this text as well."""
    put = follow_through.with_references

    def helped(sources: follow_through.Sources, names: list[str]) -> dict[str, tuple[str, str]] | None:
        placed = put(sources, names) or {}
        return placed | {name: (placed[name][0], placed[name][1] + text) for name in names}

    monkeypatch.setattr(follow_through, "with_references", helped)


def test_a_helper_of_a_reference_is_not_there(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the stub does not name can't be imported from the reference that took its place."""
    with_a_helper(monkeypatch, "\n\nhelper = _helper = 3\n")
    right = next(step for step in steps() if step.name == MULTI).solved()
    for helper in ("helper", "_helper"):
        source = (
            f"from exercises.{CAUSAL} import {helper}\n{right}\nif {helper!r} in globals():\n    MultiHeadAttention = 0"
        )
        report = grader.grade(one_step(MULTI, source), [MULTI], device="cpu")
        assert (report.steps[0].status, report.steps[0].references) == ("pass", [CAUSAL])


def test_no_way_leads_from_a_public_name_to_a_helper(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the earlier step is the learner's own each of these finds it; where a reference took its place, none."""
    by_name = {step.name: step.solved() for step in steps()}
    read = one_step(MULTI, by_name[MULTI] + ROUTES)
    with_a_helper(monkeypatch, HELPER)
    (step,) = grader.grade(read, [MULTI], device="cpu").steps
    assert (step.status, step.references) == ("pass", [CAUSAL]), step.checks[0].message
    read.sources[CAUSAL] = (f"ada/{CAUSAL}.py", by_name[CAUSAL] + HELPER)
    report = grader.grade(read, [MULTI], device="cpu")
    for route in re.findall(r'^    "([\w ]+)": lambda', ROUTES, re.MULTILINE):
        if route == "a monitor" and sys.version_info < (3, 12):
            continue
        # Through our modules, which are concealed; and what searches memory is refused.
        if route in ("an import", "a changed table", "a changed builtin", "objects", "referents", "referrers"):
            continue
        assert route in "\n".join(report.notes), route


def test_a_reference_has_no_class_beside_those_of_its_stub() -> None:
    """`type` and `__subclasses__` would give it away."""
    for step in steps():
        classes = {node.name for node in ast.parse(step.solved()).body if isinstance(node, ast.ClassDef)}
        assert classes <= set(public_names(original(step.folder)))


@pytest.mark.thorough
def test_several_steps_are_put_in_place_one_after_another(grader: Grader) -> None:
    """Each import gets as far as the next one, also within a function and within a reference."""
    name, source = "step22_decoder", next(step for step in steps() if step.name == "step22_decoder").solved()
    from_afar = "        import exercises.step18_rotary\n        super().__init__()\n"
    late = source.replace("        super().__init__()\n", from_afar, 1)
    (step,) = grader.grade(one_step(name, source), [name], device="cpu").steps
    assert (step.status, step.score) == ("pass", step.max_score)
    assert step.references == ["step07_heads", "step20_cross_attention", "step21_encoder"]
    assert late != source
    (step,) = grader.grade(one_step(name, late), [name], device="cpu").steps
    assert step.status == "fail"  # step 18 is of another track
    assert "step18_rotary" not in step.references


def test_the_order_of_the_course() -> None:
    """In the core what comes before; elsewhere the core, what comes before in the track, and the tracks it needs."""
    core = tracks.Track(SOLUTIONS / "core").steps
    assert tracks.may_rest_on(core[0]) == frozenset()
    assert tracks.may_rest_on(core[5]) == frozenset(core[:5])
    assert tracks.may_rest_on("step17_relative") == {*core, "step16_sinusoidal"}
    images = tracks.may_rest_on("step24_captions")
    assert {*core, *tracks.Track(SOLUTIONS / "encoder_decoder").steps, "step23_patches"} == images
    for step in steps():  # as the references themselves do
        assert tracks.may_rest_on(step.name).issuperset(tracks.imported(step.folder))


UNWRITTEN = "def softmax(x, dim=-1):\n    raise NotImplementedError\n"
ON_IT = """
import torch
from exercises.step02_softmax import softmax


def causal_mask(num_tokens, device=None):
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu()


def masked_softmax(scores, mask):
    return softmax(scores.masked_fill(~mask, -torch.inf))


def renormalise(weights, mask):
    visible = weights.masked_fill(~mask, 0.0)
    return visible / visible.sum(dim=-1, keepdim=True)
"""


def test_in_a_learners_kit_what_does_not_rest_on_it_is_told(monkeypatch: pytest.MonkeyPatch, grader: Grader) -> None:
    """Step 4 is written, and wrong; its masked_softmax calls a step 2 that is not written."""
    monkeypatch.setattr(follow_through, "with_references", lambda sources, names: None)
    monkeypatch.setattr("grader.judge.routes.is_recorded", lambda folder: True)
    sources = {
        "step02_softmax": ("step02_softmax.py", UNWRITTEN),
        "step04_causal_mask": ("step04_causal_mask.py", ON_IT),
    }
    (step,) = grader.grade(submissions.Submission("kit", sources), ["step04_causal_mask"], device="cpu", seed=1).steps
    told = leading(step.checks)
    assert told is not None
    assert (step.status, step.blocked_by) == ("fail", "step02_softmax")
    assert (told.about, told.misconception) == ("causal_mask", "future_instead_of_past")
    assert "not handed in" not in told.message and "Blocked" not in told.message
    assert step.score == sum(check.points for check in step.checks if check.about == "renormalise")
    said = terminal.parts(step)
    assert "masked_softmax: waits for step02_softmax" in said
    assert "not written yet" not in said
    assert "causal_mask ✗" in said
