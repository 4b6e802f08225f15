"""What the terminal shows while a GPT trains: a bar, the curve, and what the model writes."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grader.base.language import gettext as _

from ..lab_common.training import Progress

WIDTH, HEIGHT = 60, 10  # characters of the curve; each holds 2 x 4 dots
# Unicode's Braille patterns (from U+2800): the bit of each dot, by its column and row in the character.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
EMPTY = 0x2800

Curve = list[tuple[int, float]]


class Canvas:
    """Dots on a plane whose corners are (0, low) and (last, high)."""

    def __init__(self, last: float, low: float, high: float) -> None:
        self.last, self.low, self.high = max(last, 1.0), low, max(high, low + 1e-6)
        self.cells = [[(EMPTY, "")] * WIDTH for _row in range(HEIGHT)]

    def dot(self, x: float, y: float, colour: str) -> None:
        """One dot; a value beyond the plane is drawn at its edge."""
        across = round((2 * WIDTH - 1) * min(max(x / self.last, 0.0), 1.0))
        down = round((4 * HEIGHT - 1) * (1 - min(max((y - self.low) / (self.high - self.low), 0.0), 1.0)))
        bits = self.cells[down // 4][across // 2][0] | DOTS[across % 2][down % 4]
        self.cells[down // 4][across // 2] = (bits, colour)

    def lines(self) -> list[Text]:
        """The plane, its values at the left."""
        made = []
        for row, cells in enumerate(self.cells):
            value = self.high - (self.high - self.low) * row / (HEIGHT - 1)
            line = Text(f"{value:6.2f} ", "dim")
            for bits, colour in cells:
                line.append(chr(bits), colour)
            made.append(line)
        return made


def curve(progress: Progress, bigram: float, blind: float) -> Group:
    """Training and validation loss against the step, and the bigram's as a line across."""
    points = progress.curve
    last = points[-1][0] if points else 1
    low = min([bigram, *(loss for _step, loss, _validation in points)]) * 0.9
    canvas = Canvas(last, min(low, bigram), blind)
    for across in range(0, 2 * WIDTH, 4):
        canvas.dot(across * last / (2 * WIDTH), bigram, "yellow")
    for step, loss, validation in points:
        canvas.dot(step, loss, "cyan")
        if validation is not None:
            canvas.dot(step, validation, "magenta")
    legend = Text("       ")
    for colour, name in (("cyan", _("training")), ("magenta", _("validation")), ("yellow", _("bigram model"))):
        legend.append("⣿ ", colour).append(name + "   ")
    return Group(*canvas.lines(), legend)


def view(progress: Progress, done: float, left: float, bigram: float, blind: float) -> RenderableType:
    """All of it."""
    losses = progress.curve[-1] if progress.curve else None
    head = Table.grid(padding=(0, 2, 0, 0))
    facts = [_("step {step}").format(step=progress.step)]
    if losses:
        facts.append(_("loss {loss:.2f}").format(loss=losses[1]))
    if losses and losses[2] is not None:
        facts.append(_("validation {loss:.2f}").format(loss=losses[2]))
    if progress.seconds:
        facts.append(_("{rate:,.0f} tokens/s").format(rate=progress.tokens / progress.seconds))
    if progress.parsing:
        facts.append(_("{share:.0%} of samples parse").format(share=progress.parsing[-1][1]))
    facts.append(_("{seconds:.0f} s left").format(seconds=left))
    head.add_row(ProgressBar(total=1.0, completed=done, width=20), *facts)
    shown: list[RenderableType] = [head, curve(progress, bigram, blind)]
    if progress.samples:
        step, text = progress.samples[-1]
        shown += [Text(_("What it writes at step {step}:").format(step=step), "dim"), Text(text[:400])]
    return Group(*shown)
