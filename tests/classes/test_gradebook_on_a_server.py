"""A gradebook in PostgreSQL, which refuses text that SQLite takes: what a submission has printed must stop no class."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("nbgrader")

from grader.base.results import CheckResult, Report, StepResult
from grader.classes import gradebook

FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
STEP = "step01_scores"
HOSTILE = {
    "nul": "a\0b", "surrogate": "\ud800", "escape": "\x1b]0;title\x07", "long": "x" * 300_000,
    "query": "'); DROP TABLE grade; --", "percent": "%s %(name)s :name {0}",
}  # fmt: skip
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own, run by the user postgres if this is root."""
    if not FOUND:
        pytest.skip("PostgreSQL is not installed")
    root = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user = [] if os.geteuid() else [shutil.which("runuser") or "runuser", "-u", "postgres", "--"]
    data = Path(subprocess.run([*as_user, "mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    tool = [*as_user, str(FOUND[-1])]
    options = f"-p {port} -k {data} -c listen_addresses=127.0.0.1 -c fsync=off"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
    subprocess.run([*tool, "-D", str(data / "data"), "-o", "-A trust -E UTF8 -U postgres", "init"], **quiet)  # type: ignore[call-overload]
    log = str(data / "log")
    subprocess.run([*tool, "-D", str(data / "data"), "-l", log, "-w", "-o", options, "start"], **quiet)  # type: ignore[call-overload]
    try:
        yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*tool, "-D", str(data / "data"), "-m", "immediate", "stop"], **quiet)  # type: ignore[call-overload]
        shutil.rmtree(data, ignore_errors=True)
    assert root


def report(said: str) -> Report:
    """A step that fails with this message and this output."""
    check = CheckResult(
        name="test_it", title="It is right.", device="cpu", status="fail", points=0.0, max_points=2.0, message=said
    )
    step = StepResult(
        name=STEP, title="Scores", status="fail", score=0.0, max_score=2.0, seconds=0.1, checks=[check], output=said
    )
    return Report(
        submission="eve", seed=1, isolation=[], devices={}, score=0.0, max_score=2.0, steps=[step], notes=[said]
    )


def test_what_a_submission_said_is_a_comment(server: str) -> None:
    entries = [(name, report(said), "", None) for name, said in HOSTILE.items()]
    failures = [(f"failed {name}", None, said, None) for name, said in HOSTILE.items() if name != "long"]
    assert gradebook.save(server, "hw", [*entries, *failures], {STEP}) == len(entries) + len(failures)
    from nbgrader.api import Gradebook

    with Gradebook(server) as book:
        assert len(book.students) == len(entries) + len(failures)
        comment = book.find_comment(STEP, "hw", "hw", "query")
        assert "DROP TABLE grade" in comment.auto_comment


@pytest.mark.parametrize("name", ["e\0ve", "e\ud800", "e" * 300])
def test_a_name_that_the_server_refuses_is_one_students(server: str, name: str) -> None:
    entries = [(each, report("no"), "", None) for each in ("ada", name, "zoe")]
    with pytest.raises(gradebook.NoGradebook, match="it has no marks of e[^;]*; the others are there"):
        gradebook.save(server, "names", entries, {STEP})
