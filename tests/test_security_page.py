"""docs/security.md says what the recorded runs gave, about every attack that there is."""

from __future__ import annotations

import pytest

from grader.language import LANGUAGES
from tests import hostile, security_page
from tests.security_page import Record, Run


def test_pages_are_fresh() -> None:
    """Every attack was run, and the pages are what the generator makes of the runs."""
    assert security_page.recorded().attacks == [attack.name for attack in hostile.attacks()]
    assert security_page.stale() == []


def test_every_set_of_layers_was_run() -> None:
    """As an ordinary user and as root; with all layers nothing gets through."""
    record = security_page.recorded()
    assert [(run.user, tuple(run.without)) for run in record.runs] == security_page.RUNS
    assert [run.through for run in record.runs if not run.without] == [[], []]


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_every_attack_has_its_row(spoken: str) -> None:
    """Once, with its outcome."""
    text = security_page.page(spoken, security_page.recorded())
    for attack in hostile.attacks():
        rows = [line for line in text.splitlines() if line.startswith(f"| `{attack.name}` |")]
        assert len(rows) == 1
        assert all(f"`{status}`" in rows[0] for status in attack.expected)


def test_what_an_attack_needs() -> None:
    """The smallest sets of layers that must be missing, and none where it never gets through."""
    runs = [
        Run("ordinary", [], []),
        Run("ordinary", ["seccomp"], ["a"]),
        Run("ordinary", ["namespaces", "landlock"], ["b"]),
        Run("ordinary", ["landlock", "seccomp"], ["a", "c"]),
        Run("ordinary", list(security_page.KERNELS), ["a", "b", "c"]),
    ]
    words = security_page.WORDS["en"]
    needs = {name: security_page._needs(name, Record("Linux", [], runs), words) for name in "abcd"}
    assert needs == {
        "a": "seccomp",
        "b": "namespaces and landlock",
        "c": "landlock and seccomp",
        "d": words["never"],
    }
