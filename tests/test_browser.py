"""What a notebook shows of a verdict, in a real Chromium: inside JupyterLab's style sheet and nbgrader's Bootstrap,
wide and as wide as a phone. Skipped where there is no Chromium, or no nbconvert."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grader.base import language
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.report import page

nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed: make release installs it")
v4 = pytest.importorskip("nbformat.v4")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with")

PARTING = Parting(
    expected=[[0.5, 0.25], [None, 1.0]], came=[[0.5, 0.75], [0.0, 1.0]], differs=[[False, True], [True, False]],
    slice=[], place=[0, 1],
)  # fmt: skip
MESSAGE = (
    "called    softmax([[0.1, 0.2, 0.3, 0.4], [1000.0, 1000.0, 1000.0, 1000.0]])\nexpected  0.25\ngot       nan\n"
    "cause     The scores were not shifted before the exponential."
)
MEASURE = """
<script>
const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; };
const all = name => [...document.querySelectorAll(".attention-verdict " + name)];
const verdict = document.querySelector(".attention-verdict");
const image = document.querySelector(".attention-verdict img");
const outside = all("*").filter(one => !one.closest(".picture, .scroll, pre, .unseen") &&
  one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(one => one.className || one.tagName);
window.addEventListener("load", () => {
  document.body.dataset.measured = JSON.stringify({
    dt: all("dt").map(box), dd: all("dd").map(box), lines: all("dt").map(one => one.getClientRects().length),
    font: parseFloat(getComputedStyle(all("dd")[0]).fontSize), image: image ? image.naturalWidth : -1, outside,
    width: box(verdict)[2],
  });
});
</script></body>
"""


def verdict() -> str:
    """A step that fails in one check, with everything that a verdict may hold."""
    check = CheckResult(
        name="test_large_scores", title="Large scores do not overflow.", device="cpu", status="fail", points=0.0,
        max_points=2.0, message=MESSAGE, hint="What is exp(1000)?", parting=PARTING,
    )  # fmt: skip
    step = StepResult(
        name="step02_softmax", title="Softmax", status="fail", score=0.0, max_score=2.0, seconds=0.1, checks=[check],
        output="printed\n" * 3,
    )  # fmt: skip
    report = Report(
        submission="ada", seed=1, isolation=[], devices={"cpu": "checked"}, score=0.0, max_score=2.0, steps=[step]
    )
    with language.use("en"):
        return page.fragment(report)


def converted(template: str) -> str:
    """A notebook with the verdict as nbconvert writes it: `lab` brings JupyterLab's own style sheet, `classic` has
    Bootstrap's, as nbgrader's feedback."""
    output = v4.new_output("display_data", data={"text/html": verdict()})
    notebook = v4.new_notebook(cells=[v4.new_code_cell("check(2)", outputs=[output])])
    made, _resources = nbconvert.HTMLExporter(template_name=template).from_notebook_node(notebook)
    without = re.sub(r'<script[^>]*src="http[^>]*>\s*</script>|<link[^>]*http[^>]*>', "", made)  # nothing is fetched
    return without.replace("</body>", MEASURE, 1)


def measured(source: str, width: int, tmp_path: Path, *more: str) -> dict[str, Any]:
    """What the page measures of itself in a window so wide."""
    file = tmp_path / "page.html"
    file.write_text(source, encoding="utf-8")
    # A window of Chromium is at least 500 wide: a frame stands for a phone.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<meta charset="utf-8"><body style="margin:0"><iframe src="page.html" width="{width}" height="2000" '
        'style="border:0"></iframe><script>onload = () => document.body.dataset.measured = '
        "document.querySelector('iframe').contentDocument.body.dataset.measured</script>",
        encoding="utf-8",
    )
    command = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={max(width, 500)},2000", *more,
        "--virtual-time-budget=8000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=environment)
    found = re.search(r'data-measured="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return dict(json.loads(html.unescape(found[1])))


@pytest.mark.parametrize("template", ["lab", "classic"])
@pytest.mark.parametrize("width", [1200, 390])
def test_a_verdict_is_readable(template: str, width: int, tmp_path: Path) -> None:
    """Labels in one line and beside or above their values, letters of a size to be read, nothing outside, a picture."""
    seen = measured(converted(template), width, tmp_path)
    assert seen["font"] >= 12
    assert seen["outside"] == []
    assert seen["image"] > 100
    for label, value in zip(seen["dt"], seen["dd"], strict=True):
        assert label[3] < 30, "a label is broken into pieces"
        assert value[2] > 0.5 * seen["width"], "a value is squeezed"
        beside, above = label[0] + label[2] <= value[0] + 1, label[1] + label[3] <= value[1] + 1
        assert beside or above
