"""What `make help` shows: to whom, and in which order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from grader.author import kit
from grader.base.paths import ROOT

MAKEFILE = ROOT / "Makefile"
HEADINGS = ["Learn, every day", "Learn", "Teach", "Make: write steps, change the kit"]


def shown(makefile: Path, *words: str, spoken: str = "en") -> list[str]:
    """The lines of `make help`."""
    command = ["make", "--no-print-directory", "-f", str(makefile), "help", *words]
    environment = os.environ | {"KIT_LANG": spoken}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    return done.stdout.splitlines()


def names(lines: list[str]) -> list[str]:
    """The targets that are listed, in order."""
    return [match[1] for line in lines if (match := re.match(r"  make (\S+) +\S", line))]


def headings(lines: list[str]) -> list[str]:
    """The headings of the groups."""
    return [line for line in lines if not line.startswith(("  ", "make ", "STEP="))]


def test_help_has_three_groups_and_the_daily_ones_first() -> None:
    """What only maintainers need waits for ALL=1; no target is in no group."""
    usual, whole = shown(MAKEFILE), shown(MAKEFILE, "ALL=1")
    assert names(usual)[:7] == ["course", "explore", "grade", "watch", "hint", "lesson", "solution"]
    assert headings(usual) == HEADINGS and headings(whole) == [*HEADINGS, "Maintain the kit"]
    assert {"gpt2", "class", "prove"} <= set(names(usual)) and "bench-grade" not in names(usual)
    assert sorted(names(whole)) == sorted(
        set(re.findall(r"^([a-z0-9-]+):", MAKEFILE.read_text(encoding="utf-8"), re.M))
    )


def test_help_in_korean() -> None:
    """Every heading and every line, none for a target that is gone, and in the same order."""
    english, korean = shown(MAKEFILE, "ALL=1"), shown(MAKEFILE, "ALL=1", spoken="ko")
    assert names(english) == names(korean) and len(headings(english)) == len(headings(korean))
    assert not [line for line in korean if not re.search("[가-힣]", line)]
    told = (ROOT / "grader" / "locale" / "make.ko.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(line.partition(":")[0] for line in told if line[0] != "+") == sorted(names(english))


def test_a_learner_sees_what_a_learner_types(tmp_path: Path) -> None:
    """In a kit's Makefile the other groups are not mentioned."""
    makefile = tmp_path / "Makefile"
    makefile.write_text(kit.learners_makefile(MAKEFILE.read_text(encoding="utf-8")), encoding="utf-8")
    lines = shown(makefile)
    assert headings(lines) == HEADINGS[:2] and set(names(lines)) >= {"grade", "begin", "gpt2"}
    assert "prove" not in names(lines) and not [line for line in lines if "ALL=1 lists" in line]
