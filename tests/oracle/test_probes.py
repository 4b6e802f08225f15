"""What a wrong answer itself tells: a factor, another place, a row of its own, an answer that does not repeat."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from grader.base import language
from grader.base.errors import CheckFailed
from grader.base.results import CheckResult, leading
from grader.calls.call import Call, Outcome
from grader.calls.values import PlacedTensor
from grader.checks.backends import Exchange
from grader.checks.reproduction import Due
from grader.checks.trial import Verdict
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle import probes

RIGHT = torch.randn(3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
QUERY = torch.zeros(3, 4, 9)
SOFTMAX = """import torch


def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    right = e / e.sum(dim, keepdim=True)
"""


def verdict(mine: Tensor, right: Tensor = RIGHT) -> Verdict:
    about = Exchange(Call("scores", (QUERY,)), outcome=Outcome(PlacedTensor(mine, "cpu")))
    failure = CheckFailed("")
    failure.about, failure.due = about, Due(PlacedTensor(right, "cpu"))
    return Verdict("fail", "", frozenset(), exchanges=[about], failure=failure)


@pytest.mark.parametrize(
    ("mine", "name"),
    [
        (RIGHT * 2, "answer_scaled"),
        (RIGHT / 3, "answer_scaled"),
        (-RIGHT, "sign_of_the_answer"),
        (RIGHT.roll(1, 1), "answer_shifted"),
        (RIGHT.flip(-1), "answer_reversed"),
        (RIGHT.transpose(-2, -1), "answer_transposed"),
        (RIGHT[:1].expand(3, 4, 4), "answer_of_the_first"),
        (RIGHT.mean(0, keepdim=True).expand(3, 4, 4), "answer_averaged"),
        (torch.cat((RIGHT[:, :3], torch.zeros(3, 1, 4, dtype=torch.float64)), 1), "rows_left_zero"),
        (RIGHT.float().double(), "digits_lost"),
        (RIGHT[:, :3], "rows_short"),
        (RIGHT * torch.arange(1.0, 13.0).view(3, 4, 1), "rows_scaled"),
    ],
)
def test_a_relation_is_found_in_both_languages(mine: Tensor, name: str) -> None:
    found = probes.agreed([verdict(mine), verdict(mine)], lambda: None)
    assert found is not None
    assert found[0] == name
    words = {"function": "scores", **dict(found[1])}
    for line in probes.PROBES[name]:
        with language.use("ko"):
            assert language.gettext(line, **words) != line.format(**words)


def counted(mine: int, right: int, *sizes: int) -> Verdict:
    found = verdict(RIGHT)
    found.failure.about = Exchange(Call("count", sizes), outcome=Outcome(mine))
    found.failure.due = Due(right)
    return found


def test_a_term_that_a_sum_lacks_is_said_as_a_formula() -> None:
    """Also where it is a small part of the sum, and the other way round where it is one too many."""

    def right(layers: int, width: int) -> int:
        return 10**9 + 5 * layers * width

    sizes = ((2, 7), (3, 11))
    for by, name in ((-1, "term_missing"), (1, "term_too_many")):
        both = [counted(right(*each) + by * each[0] * each[1], right(*each), *each) for each in sizes]
        found = probes.agreed(both, lambda: None)
        assert found == (name, (("term", "args[0] · args[1]"),))
        with language.use("ko"):
            said = language.gettext(probes.PROBES[name].what, function="count", term="T")
        assert said != probes.PROBES[name].what.format(function="count", term="T")
    unlike = [
        counted(right(*each) - lacking, right(*each), *each) for each, lacking in zip(sizes, (14, 9), strict=True)
    ]
    assert probes.agreed(unlike, lambda: None) is None


def test_an_answer_in_place_of_an_error_is_named_from_the_answer() -> None:
    accepted = verdict(RIGHT)
    assert accepted.failure.about is not None
    accepted.failure.about.due_error = True
    failing = [probes.Failing("scores", lambda: None, accepted)]
    found = probes.diagnoses(failing, None, None, (1, 2), "cpu", False)  # type: ignore[arg-type]
    assert [wrong.called for group in found.values() for wrong in group] == ["error_not_raised"]


def test_arguments_are_named_in_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "run_check", lambda *asked, **how: counted(90, 100, 2, 5))
    failing = [probes.Failing("count", lambda: None, counted(*each)) for each in ((41, 55, 2, 7), (1, 34, 3, 11))]
    names = {"count": ["layers", "width"]}
    found = probes.diagnoses(failing, None, None, (1, 2), "cpu", True, names)  # type: ignore[arg-type]
    assert {wrong.words["term"] for group in found.values() for wrong in group} == {"layers · width"}


def test_a_mask_in_another_order_is_said() -> None:
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    for mine, name in ((mask.flip(1), "answer_reversed"), (mask.T, "answer_transposed")):
        found = probes.agreed([verdict(mine, mask), verdict(mine, mask)], lambda: None)
        assert found is not None
        assert found[0] == name


def test_one_verdict_for_all_entries_is_said() -> None:
    right = torch.tensor([[True, False, False], [False, False, False]])
    for mine in (torch.ones(2, 3, dtype=torch.bool), right.any(1, keepdim=True).expand(2, 3), right & False):
        found = probes.agreed([verdict(mine, right), verdict(mine, right)], lambda: None)
        assert found is not None
        assert found[0] == "one_answer_for_all"
    assert probes.agreed([verdict(~right, right), verdict(~right, right)], lambda: None) is None
    as_numbers = verdict(torch.ones(2, 3), right.float())
    assert probes.agreed([as_numbers, as_numbers], lambda: None) is None


def test_rows_of_which_few_are_right_are_not_called_unfinished() -> None:
    mine = torch.zeros_like(RIGHT)
    mine[:, 0] = RIGHT[:, 0]
    assert probes.agreed([verdict(mine), verdict(mine)], lambda: None) is None


def test_whole_numbers_are_compared_exactly() -> None:
    """Beyond 2**53 floats have gaps, and a number near twice the right one is not twice it."""
    right = 2**62 + 7 * 11
    found = probes.relations_in(counted(right - 7 * 11, right, 7, 11))
    assert found is not None
    assert ("term_missing", (("term", "args[0] · args[1]"),)) in found
    assert probes.relations_in(counted(2 * right, right, 7, 11))[0] == ("answer_scaled", (("factor", "2"),))  # type: ignore[index]
    nearly = probes.relations_in(counted(2 * right + 1, right, 7, 11)) or []
    assert "answer_scaled" not in {name for name, _words in nearly}


def test_a_term_is_asked_for_under_another_draw_as_well() -> None:
    """Two calls with equal sizes leave two formulas open; a draw of unlike ones decides."""
    same = [counted(30 - 9, 30, 3, 3), counted(50 - 9, 50, 3, 3)]
    found = probes.agreed(same, lambda: counted(100 - 25, 100, 2, 5))
    assert found == ("term_missing", (("term", "args[1]²"),))
    assert probes.agreed(same, lambda: counted(100 - 13, 100, 2, 5)) is None


def test_what_holds_in_one_draw_alone_is_not_said() -> None:
    assert probes.agreed([verdict(RIGHT * 2), verdict(RIGHT * 5)], lambda: None) is None
    assert probes.agreed([verdict(RIGHT * 2)], lambda: verdict(RIGHT + 1)) is None
    assert probes.agreed([verdict(RIGHT + 1), verdict(RIGHT + 1)], lambda: None) is None


@pytest.mark.parametrize(
    "mine",
    [
        torch.full((3, 4, 4), torch.nan), torch.full((3, 4, 4), torch.inf), torch.zeros(3, 4, 4), torch.zeros(0),
        torch.zeros((1,) * 60), torch.zeros(3, 4, 0), torch.zeros(3, 4, 4, dtype=torch.bool), torch.zeros(()),
        torch.full((3, 4, 4), 1e308, dtype=torch.float64), torch.zeros(3, 4, 4, dtype=torch.complex64).real,
    ],
)  # fmt: skip
def test_an_answer_made_to_trip_a_probe_says_nothing(mine: Tensor) -> None:
    assert probes.agreed([verdict(mine), verdict(mine)], lambda: None) is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("return right + 0.01 * torch.rand_like(right)", "random_answer"),
        ("made.append(0)\n    return right * len(made)\n\n\nmade = []", "answer_depends_on_earlier_calls"),
        ("return right * 2", "answer_scaled"),
    ],
)
def test_a_file_is_told(grader: Grader, line: str, name: str) -> None:
    submission = Submission("probed", {"step02_softmax": ("step02_softmax.py", f"{SOFTMAX}    {line}\n")})
    (step,) = grader.grade(submission, ["step02_softmax"], device="cpu", seed=5).steps
    assert name in {check.misconception for check in step.checks}
    assert step.score is not None
    assert step.score < step.max_score


def test_nothing_is_compared_with_the_right_answer_where_values_are_hidden() -> None:
    """A reference in the learner's process could be asked, and its answers scaled to say what it is."""
    scaled = probes.Failing("scores", lambda: None, verdict(RIGHT * 2))

    class NoReference:
        def again(self) -> None: ...

    assert probes.diagnoses([scaled, scaled], None, NoReference(), (1, 2), "cpu", False) == {}  # type: ignore[arg-type]
    assert probes.diagnoses([scaled, scaled], None, NoReference(), (1, 2), "cpu", True) != {}  # type: ignore[arg-type]


def test_the_mistake_that_explains_the_most_is_told_of_first() -> None:
    def check(name: str, misconception: str | None = None) -> CheckResult:
        return CheckResult(
            name=name, title="", device="cpu", status="fail", points=0.0, max_points=1.0, misconception=misconception
        )

    checks = [check("a"), check("b", "one"), check("c", "two"), check("d", "two")]
    told = leading(checks)
    assert told is not None
    assert told.name == "c"
    told = leading([*checks, check("e", "random_answer")])
    assert told is not None
    assert told.name == "e"  # it spoils what the others compare
