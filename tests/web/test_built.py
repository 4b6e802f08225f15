"""What a finished step shows on the course's page: drawn by the code it is given, over the words it is given."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
import torch

from grader.base import language, paths
from grader.oracle.live import Solution
from grader.report import lesson_page
from grader.web import built, built_process
from grader.web.built import PictureRequest
from tests.hostile import alive, descendants, eventually
from tests.labs.test_labs import solved

BUILT = [folder for folder in paths.step_folders() if (folder / "built.py").is_file()]
WORDS = ["the", "cat", "sat", "on", "the"]


@pytest.mark.parametrize("folder", BUILT, ids=lambda folder: folder.name)
def test_every_picture_can_be_drawn(folder: Path) -> None:
    """By the reference, in both languages, over one word and over many."""
    if folder.name == "step29_triton":
        pytest.importorskip("triton")
    step = Solution(folder)
    module = importlib.import_module(f"{step.package}.built")
    for words in (WORDS[:1], WORDS * 2):
        with torch.no_grad():
            drawn = built_process.draw(module, step.reference, words)
        assert drawn.picture is not None
        for spoken in language.LANGUAGES:
            with language.use(spoken):
                said = language.gettext(module.SAYS)
                assert "<svg" in lesson_page.figure(drawn.picture, said)
                assert (said == module.SAYS) is (spoken == "en")


def test_every_step_shows_what_was_built() -> None:
    """In all tracks."""
    assert list(paths.step_folders()) == BUILT


def test_it_is_drawn_by_the_learners_own_code(tmp_path: Path) -> None:
    """A mask that is upside down is drawn upside down; the words are those that were given."""
    folder = solved(tmp_path / "mine", 4)
    drawn = built_process.drawn(PictureRequest("step04_causal_mask", str(folder), WORDS))
    file = folder / "step04_causal_mask.py"
    file.write_text(file.read_text(encoding="utf-8").replace(".tril()", ".triu()"), encoding="utf-8")
    for name in [name for name in list(sys.modules) if name.startswith("exercises")]:
        del sys.modules[name]
    turned = built_process.drawn(PictureRequest("step04_causal_mask", str(folder), WORDS))
    assert drawn.picture is not None and turned.picture is not None
    assert drawn.picture.panels[0][1][0] == [True, False, False, False, False]
    assert turned.picture.panels[0][1][0] == [True] * 5
    assert drawn.picture.rows == WORDS


@pytest.mark.thorough
def test_a_process_draws_and_outlives_what_fails(tmp_path: Path) -> None:
    """A file that ends its own process, or prints what looks like an answer, costs one picture and not the next."""
    folder = solved(tmp_path / "mine", 1, 4)
    with_end = folder / "step04_causal_mask.py"
    right = with_end.read_text(encoding="utf-8")
    made = built.PictureService(folder)
    try:
        assert "<svg" in made.html("step01_scores")
        with_end.write_text("import os\nos._exit(3)\n", encoding="utf-8")
        assert "<svg" not in made.html("step04_causal_mask")
        with_end.write_text('print(\'{"says": "<b>odd</b>"}\')\n' + right, encoding="utf-8")
        shown = made.html("step04_causal_mask", "<i>one</i> two")
        assert "<svg" in shown and "&lt;i&gt;one" in shown and "<i>" not in shown and "odd" not in shown
    finally:
        made.close()


@pytest.mark.thorough
def test_a_loop_is_ended(tmp_path: Path) -> None:
    """After some seconds, whatever alarms the code sets, and the next picture is drawn; or with the page."""
    folder = solved(tmp_path / "mine", 1, 4)
    file = folder / "step04_causal_mask.py"
    loop = "import signal\n\n\ndef causal_mask(*given, **named):\n    signal.alarm(0)\n    while True:\n        pass\n"
    file.write_text(loop, encoding="utf-8")
    asked = [PictureRequest(name, str(folder), WORDS) for name in ("step04_causal_mask", "step01_scores")]
    command = "from grader.web import built_process\nbuilt_process.SECONDS = 1\nbuilt_process.main()"
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in asked)
    said = subprocess.run([sys.executable, "-c", command], input=lines, capture_output=True, check=True).stdout
    late, drawn = (msgspec.json.decode(line, type=built.DrawnPicture) for line in said.splitlines())
    assert late.late and not late.picture and drawn.picture

    made = built.PictureService(folder)
    waiting = threading.Thread(target=made.html, args=("step04_causal_mask",))
    waiting.start()
    assert eventually(lambda: made._process is not None and bool(descendants(made._process.pid)))
    assert made._process is not None
    drawing = descendants(made._process.pid)
    made.close()
    waiting.join()
    assert eventually(lambda: not alive(drawing))
