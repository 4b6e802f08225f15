"""Formulas of a lesson for a notebook: LaTeX in place of the picture that stands for it in a terminal.

An author writes the LaTeX as a comment right above the picture, where a terminal shows nothing of it:

    <!-- $$ \\text{weights} = \\mathrm{softmax}(\\text{scores}) $$ -->
"""

from __future__ import annotations

import re

FORMULA = re.compile(r"^<!--\s*(\$\$.+?\$\$)\s*-->\n+```\n.*?^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^<!--\s*\$\$.*?\$\$\s*-->\n", re.MULTILINE | re.DOTALL)


def as_latex(text: str) -> str:
    """The text with each formula as LaTeX, which notebooks set, in place of its picture."""
    return COMMENT.sub("", FORMULA.sub(lambda found: found[1], text))
