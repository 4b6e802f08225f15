"""`make screenshots`: the pictures of the README, from real runs, in both languages.

The submissions are made here: three steps done, and a mask that is upside down in step 4. `make grade` and the page are
run on them, and `make watch`. The class is that of `examples/course/`. Terminals are drawn by rich, pages by a
Chromium.
"""

from __future__ import annotations

import html
import io
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from grader.base import language
from grader.base.paths import ROOT
from grader.base.results import Graded, Report
from grader.classes import class_list, roster
from grader.course import choice, exercises, steps
from grader.course import submissions as submission
from grader.feedback import class_page
from grader.feedback.standings import standing
from grader.judge.grader import Grader
from grader.report import page, terminal
from tests import browser
from tests.watched import Session, core_points

IMAGES = ROOT / "docs" / "images"
WIDTH = 80
SEED = 4
CELL = 12.2  # the width that rich gives one column
NARROW = "'Fira Code', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
WIDE = "'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans CJK KR', sans-serif"
WIDE_RULE = "}}\n\n    .{unique_id}-matrix .wide {{ font-family: " + WIDE + "; font-size: 22px; }}\n\n    {styles}"
FONT_FACES = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)
TEXT = re.compile(
    r'<text class="(?P<style>\S+-r\d+)" x="(?P<x>[\d.]+)" (?P<y>y="[\d.]+") textLength="[\d.]+"(?P<rest>[^>]*)>'
    r"(?P<text>[^<]*)</text>"
)


SEEN = {"report": (880, 1330), "class": (1100, 1400)}  # width and height of the window that looks at a page
MASK = "step04_causal_mask"
UPSIDE_DOWN = """import torch


def causal_mask(num_tokens, device=None):
    return torch.triu(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device))


def masked_softmax(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)


def renormalise(weights, mask):
    weights = weights * mask
    return weights / weights.sum(dim=-1, keepdim=True)
"""


def first_steps(folder: Path) -> None:
    """A learner on the way: three steps done, the fourth with its mask upside down."""
    exercises.write(folder)
    for step in steps.steps()[:3]:
        (folder / f"{step.name}.py").write_text(step.solved(), encoding="utf-8")
    (folder / f"{MASK}.py").write_text(UPSIDE_DOWN, encoding="utf-8")


def svg(console: Console, title: str) -> str:
    """What was printed, as a picture that loads nothing and gives Hangul its two columns."""
    template = FONT_FACES.sub("", CONSOLE_SVG_FORMAT)
    template = template.replace("Fira Code, monospace", NARROW).replace("font-variant-east-asian: full-width;", "")
    template = re.sub(r"\}\}\s+\{styles\}", lambda _match: WIDE_RULE, template)
    return TEXT.sub(_in_columns, console.export_svg(title=title, code_format=template))


def _in_columns(match: re.Match[str]) -> str:
    """A text of rich's, cut where narrow and wide characters meet: rich gives all of them one column."""
    x, pieces = float(match["x"]), []
    for width, run in itertools.groupby(html.unescape(match["text"]), key=lambda one: cell_len(one) or 1):
        text = "".join(run)
        places = [x + width * CELL * index for index in range(len(text) + 1)]
        shown = html.escape(text, quote=False).replace("\xa0", "&#160;")
        style = match["style"] + (" wide" if width == 2 else "")
        # Each wide character has its own place: fonts disagree about their width.
        place = " ".join(f"{one:g}" for one in places[:-1]) if width == 2 else f"{x:g}"
        length = "" if width == 2 else f' textLength="{places[-1] - x:g}"'
        pieces.append(f'<text class="{style}" x="{place}" {match["y"]}{length}{match["rest"]}>{shown}</text>')
        x = places[-1]
    return "".join(pieces)


def in_terminal(shown: Report) -> Console:
    """`make grade` as a terminal shows it."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(terminal.terminal(shown))
    console.print()  # the descenders of the last line need room
    return console


def watched(folder: Path, spoken: str) -> dict[str, Console]:
    """Two screens of `make watch` in a learner's folder: step 4 saved with the mask upside down, and fixed; then
    step 5 is shown."""
    first_steps(folder / "exercises")
    file = folder / "exercises" / f"{MASK}.py"
    surroundings = {"KIT_LANG": spoken, "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
    with Session("exercises", "4", root=folder, **surroundings) as session:
        done = {"en": "quit", "ko": "종료"}[spoken]
        session.until("✗", "→", core_points(), done)  # the points of the course are known when every step was looked at
        session.until(done, after=session.shown.rindex("→"))  # the whole of the screen
        wrong = session.screen()
        seen = len(session.shown)
        file.write_text(UPSIDE_DOWN.replace("triu", "tril"), encoding="utf-8")
        session.until("✓", "step05_dropout", done, after=seen)
        session.until(done, after=session.shown.rindex("step05_dropout"))
        right = session.screen()
        session.press("q")
        session.ended()
    consoles = {}
    for name, screen in (("watch-wrong", wrong), ("watch-right", right)):
        consoles[name] = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
        consoles[name].print(Text.from_ansi(screen))
    return consoles


def a_class(grader: Grader) -> str:
    """The page of the class that comes with the kit."""
    submissions = ROOT / "examples" / "course" / "submissions"
    standings = []
    for student in roster.students(submissions, class_list.read(submissions), "attention"):
        shown = grader.grade(student.submission, choice.step_names(None, choice.CORE), device="cpu", seed=SEED)
        standings.append(standing(Graded(student=student.name, file=student.file, key="", report=shown)))
    return class_page.html(standings, seed=SEED, submissions="examples/course/submissions")


def seen(source: str, kind: str, scratch: Path) -> bytes:
    """The top of the page as a browser shows it, as a PNG picture of few colours."""
    file, width, height = scratch / f"{kind}.html", *SEEN[kind]
    file.write_text(source, encoding="utf-8")
    with browser.Tab(file.as_uri(), scratch / f"profile-{kind}-{language.current()}", width, height) as tab:
        tab.until("document.readyState == 'complete'")
        tab.look(width, min(height, tab.value("document.documentElement.scrollHeight")))
        tab.picture(file.with_suffix(".png"))
    picture = io.BytesIO()
    Image.open(file.with_suffix(".png")).convert("RGB").quantize(128).save(picture, format="PNG", optimize=True)
    return picture.getvalue()


def require_korean_font() -> None:
    """Ends the program where letters would be drawn as boxes."""
    if shutil.which("fc-list") and not subprocess.run(["fc-list", ":lang=ko"], capture_output=True).stdout:
        sys.exit(
            "No font for Korean is installed (on Debian: apt-get install fonts-nanum). Then type: make screenshots"
        )


def in_browser(folder: Path, spoken: str, scratch: Path) -> None:
    """The course's page at step 4, as a browser shows it."""
    with Session(folder, "4", command="course", terminal=False, KIT_LANG=spoken, BROWSER="true") as session:
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+", session.until("127.0.0.1"))
        assert address is not None
        with browser.Tab(address[0], scratch / f"profile-{spoken}", 1440, 1080) as tab:
            tab.until("document.querySelector('.status.fail') && document.querySelectorAll('.row.pass').length == 3")
            tab.until("document.querySelector('.lesson figure')")
            tab.until("document.querySelectorAll('.map li')[3].querySelector('.lab')")
            tab.value(
                "document.querySelector('.middle').scrollTop = document.querySelector('.lesson figure').offsetTop - 320"
            )
            tab.picture(IMAGES / f"course.{spoken}.png")


def main() -> None:
    """Draws every picture in each language."""
    require_korean_font()
    if browser.BROWSER is None:
        sys.exit("No Chromium was found on the path. Install one, then type: make screenshots")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Grader() as grader:
        folder = Path(scratch) / "exercises"
        first_steps(folder)
        core = choice.step_names(None, choice.CORE)
        for spoken in language.LANGUAGES:
            with language.use(spoken):
                shown = grader.grade(submission.read(folder), core, device="all", seed=SEED)
                if [step.status for step in shown.steps[:4]] != ["pass", "pass", "pass", "fail"]:
                    sys.exit("the run is not the one that the pictures are of; type: make grade")
                consoles = {"grade": in_terminal(shown), **watched(Path(scratch) / spoken, spoken)}
                for name, console in consoles.items():
                    title = "make grade" if name == "grade" else "make watch"
                    (IMAGES / f"{name}.{spoken}.svg").write_text(svg(console, title), encoding="utf-8")
                fourth = grader.grade(submission.read(folder), [MASK], device="all", seed=SEED)
                (IMAGES / f"report.{spoken}.png").write_bytes(seen(page.html(fourth), "report", Path(scratch)))
                in_browser(folder, spoken, Path(scratch))
                (IMAGES / f"class.{spoken}.png").write_bytes(seen(a_class(grader), "class", Path(scratch)))


if __name__ == "__main__":
    main()
