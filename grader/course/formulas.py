"""Formulas of a lesson for a notebook and a page: LaTeX, in place of a terminal's picture of letters, or words alone.

An author writes the LaTeX as a comment, of which a terminal shows nothing:

    <!-- $$ \\text{weights} = \\mathrm{softmax}(\\text{scores}) $$ -->

Right above a picture it takes the picture's place; as a paragraph of its own it stays there.
"""

from __future__ import annotations

import re

COMMENT = re.compile(r"^<!-- (\$\$ [^\n]+ \$\$) -->$", re.MULTILINE)
WITH_PICTURE = re.compile(COMMENT.pattern[:-1] + r"\n```\n.*?^```$", re.MULTILINE | re.DOTALL)


def as_latex(text: str) -> str:
    """The text with each formula as LaTeX, which notebooks and `report/lesson_page.py` set."""
    return COMMENT.sub(lambda match: match[1], WITH_PICTURE.sub(lambda match: match[1], text))


def without(text: str) -> str:
    """The text without the LaTeX, of which a terminal shows nothing."""
    return COMMENT.sub("", text)
