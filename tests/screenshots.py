"""`make screenshots`: the pictures of the README, each drawn by rich from a real run of the grader.

The submissions are made here: untouched stubs, and one with a mask that is upside down in step 4.
"""

from __future__ import annotations

import html
import io
import itertools
import re
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.cells import cell_len
from rich.console import Console

from grader import course, exercises, language, report, submission
from grader.grading import Grader

IMAGES = course.ROOT / "docs" / "images"
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


def first_steps(folder: Path) -> None:
    """A learner on the way: three steps done, the fourth with its mask upside down."""
    exercises.write(folder)
    steps = course.steps()
    for step in steps[:3]:
        (folder / f"{step.name}.py").write_text(step.solved(), encoding="utf-8")
    wrong = """import torch


def causal_mask(num_tokens, device=None):
    return torch.triu(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device))


def masked_softmax(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)


def renormalise(weights, mask):
    weights = weights * mask
    return weights / weights.sum(dim=-1, keepdim=True)
"""
    (folder / f"{steps[3].name}.py").write_text(wrong, encoding="utf-8")


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


def main() -> None:
    """Draws one picture a language."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Grader() as grader:
        folder = Path(scratch) / "exercises"
        first_steps(folder)
        for spoken in language.LANGUAGES:
            with language.use(spoken):
                shown = grader.grade(submission.read(folder), device="all", seed=SEED)
                console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
                console.print(report.terminal(shown))
                console.print()  # the descenders of the last line need room
                (IMAGES / f"grade.{spoken}.svg").write_text(svg(console, "make grade"), encoding="utf-8")


if __name__ == "__main__":
    main()
