"""What people look at, in a real Chromium: a verdict inside JupyterLab's style sheet and nbgrader's Bootstrap, the page
of a class and that of a student; wide and as wide as a phone. Skipped where there is no Chromium, or no nbconvert."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.base import language
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.course import choice
from grader.feedback import class_page
from grader.feedback.standings import Standing
from grader.report import page
from tests.browser import CONTRAST
from tests.feedback.test_class_page import DROPOUT, MASK, step, student

nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed: make nbgrader installs it")
v4 = pytest.importorskip("nbformat.v4")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium was found on the path: nothing to look with"),
]

PARTING = Parting(
    expected=[[0.5, 0.25], [None, 1.0]], got=[[0.5, 0.75], [0.0, 1.0]], differs=[[False, True], [True, False]],
    slice=[], place=[0, 1],
)  # fmt: skip
MESSAGE = (
    "called    softmax([[0.1, 0.2, 0.3, 0.4], [1000.0, 1000.0, 1000.0, 1000.0]])\nexpected  0.25\ngot       nan\n"
    "cause     The scores were not shifted before the exponential."
)
# How far the letters of an element are from what lies behind them.
MEASURE = (
    f"<script>{CONTRAST}"
    + """
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
    width: box(verdict)[2], contrast: Math.min(...all("dt, dd, p, summary").map(contrast)),
  });
});
</script></body>
"""
)


def report() -> Report:
    """A step that fails in one check, with everything that a verdict may hold."""
    check = CheckResult(
        name="test_large_scores", title="Large scores do not overflow.", device="cpu", status="fail", points=0.0,
        max_points=2.0, message=MESSAGE, hint="What is exp(1000)?", parting=PARTING,
    )  # fmt: skip
    failed = StepResult(
        name="step02_softmax", title="Softmax", status="fail", score=0.0, max_score=2.0, seconds=0.1, checks=[check],
        output="printed\n" * 3,
    )  # fmt: skip
    return Report(
        submission="ada", seed=1, isolation=[], devices={"cpu": "checked"}, score=0.0, max_score=2.0, steps=[failed],
        unread={"step03_attention-a-name-that-goes-on-and-on-without-a-space.py.txt": "its name is not that of a step"},
    )  # fmt: skip


def verdict() -> str:
    """That step as a notebook shows it."""
    with language.use("en"):
        return page.fragment(report())


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
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    found = re.search(r'data-measured="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return dict(json.loads(html.unescape(found[1])))


@pytest.mark.parametrize("template", ["lab", "classic"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_verdict_is_readable(template: str, width: int, dark: bool, tmp_path: Path) -> None:
    """Labels in one line and beside or above their values, letters of a size to be read and not faint, nothing outside,
    a picture; also for somebody who prefers dark, in a page of nbconvert's that is light all the same."""
    seen = measured(converted(template), width, tmp_path, *([DARK] if dark else []))
    assert seen["contrast"] >= 4.5
    assert seen["font"] >= 12
    assert seen["outside"] == []
    assert seen["image"] > 100
    for label, value in zip(seen["dt"], seen["dd"], strict=True):
        assert label[3] < 30, "a label is broken into pieces"
        assert value[2] > 0.5 * seen["width"], "a value is squeezed"
        beside, above = label[0] + label[2] <= value[0] + 1, label[1] + label[3] <= value[1] + 1
        assert beside or above


# --- whole pages -----------------------------------------------------------------------------------------------------

LOOK = (
    f"<script>{CONTRAST}"
    + """
window.addEventListener("load", () => {
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  const wide = document.documentElement.clientWidth;
  const unseen = "svg, script, style, .unseen, .skip";
  const said = [...document.querySelectorAll("body *")].filter(one => !one.closest(unseen) &&
    [...one.childNodes].some(part => part.nodeType === 3 && part.textContent.trim()));
  const inside = ".scroll, .picture, pre, .unseen, .skip";
  document.body.dataset.measured = JSON.stringify({
    wide, whole: document.documentElement.scrollWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches,
    outside: said.filter(one => !one.closest(inside) && one.getBoundingClientRect().right > wide + 1)
      .map(one => one.textContent.slice(0, 60)),
    faint: said.filter(one => contrast(one) < 4.5).map(one => one.textContent.slice(0, 40)),
    squeezed: [...document.querySelectorAll(".steps th, .steps td, .grid tbody th")]
      .filter(one => one.textContent.trim().length > 12 && one.offsetWidth > 0 && one.offsetWidth < 60)
      .map(one => one.textContent.slice(0, 40)),
    small: said.filter(one => parseFloat(getComputedStyle(one).fontSize) < 11).map(one => one.textContent.slice(0, 40)),
  });
});
</script></body>
"""
)
DARK = "--blink-settings=preferredColorScheme=0"


NAMES = (
    "Wolfeschlegelsteinhausenbergerdorffvoralternwaren" * 2,
    "김수한무거북이와두루미삼천갑자동방삭",
    "\u202eadx",
    "a  b",
)


def odd_class() -> list[Standing]:
    """People with long and odd names, in all of the core; one handed in files that nobody read."""
    core = [name for name in choice.step_names(None, choice.CORE) if name not in (MASK, DROPOUT)]
    found = [
        student(name, *(step(one, "fail", ("a_misconception_of_no_catalogue" * 3,)) for one in core)) for name in NAMES
    ]
    unread = tuple((f"{name}.py.txt", "its name is not that of a step") for name in NAMES)
    return [*found, msgspec.structs.replace(found[0], student="nobody", unread=unread)]


def class_pages(spoken: str) -> dict[str, str]:
    """The page of a class of people with long and odd names, and that of one of them."""
    with language.use(spoken):
        return {
            "class": class_page.html(odd_class(), seed=7, submissions="handed in"),
            "student": page.html(report(), every_picture=False, of_class=True),
        }


@pytest.mark.parametrize("kind", ["class", "student"])
@pytest.mark.parametrize("spoken", ["en", "ko"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_page_fits_and_can_be_read(kind: str, spoken: str, width: int, dark: bool, tmp_path: Path) -> None:
    """Wide and as wide as a phone, light and dark: nothing beside the window, and no letters too faint or too small."""
    source = class_pages(spoken)[kind]
    # Our pages allow no script, and this one is the test's.
    source = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", source).replace("</body>", LOOK, 1)
    seen = measured(source, width, tmp_path, *([DARK] if dark else []))
    assert seen["dark"] is dark
    assert seen["outside"] == [] and seen["whole"] <= seen["wide"]
    assert seen["faint"] == [] and seen["small"] == [] and seen["squeezed"] == []
