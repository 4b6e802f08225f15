"""A lesson's formulas for a page: their LaTeX as MathML, which browsers set by themselves."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup

from grader.base.language import gettext as _

FORMULA = re.compile(r"^\$\$ ([^\n]+) \$\$$", re.MULTILINE)  # a paragraph of its own

LETTER = re.compile(r'<mi mathvariant="normal">(\w)</mi>')
LETTERS = re.compile(rf"(?:{LETTER.pattern}){{2,}}")  # a name in upright letters, which is read as one word


def block(latex: str) -> Markup:
    """A formula as a line of HTML that scrolls by itself if it is too wide; its LaTeX without the converter."""
    try:
        made = _converted(latex)
    except ModuleNotFoundError:
        return Markup("<pre><code>{}</code></pre>").format(latex)
    return Markup('<div class="formula" tabindex="0" role="group" aria-label="{}">{}</div>').format(_("Formula"), made)


@cache
def _converted(latex: str) -> Markup:
    from latex2mathml import converter  # takes a while to load, and only lessons on a page need it

    known = latex.replace("\\!", "").replace("{aligned}", "{split}")  # the converter's name for the same
    made = converter.convert(known, display="block").replace("\\_", "_").replace("\n", " ")
    return Markup(LETTERS.sub(lambda match: f"<mi>{''.join(LETTER.findall(match[0]))}</mi>", made))


def set_in(text: str) -> str:
    """Markdown in which each formula is HTML."""
    return FORMULA.sub(lambda match: str(block(match[1])), text)
