"""How much is tried. KIT_WHOLE says it: empty (`make test`) takes minutes, `ci` more, `1` (`make check`) takes all.

`make test` takes few seeds, a sample of the mistakes, catalogues and attacks, and leaves out what is marked `thorough`:
nbgrader, clusters, browsers, a kit that is recorded. CI takes these too, and every mistake, but nothing `exhaustive`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from grader.base import language

THOROUGH = bool(os.environ.get("KIT_WHOLE"))
WHOLE = THOROUGH and os.environ["KIT_WHOLE"] != "ci"
SAMPLED = 6  # one in so many
# The languages in which a browser looks at pages: Korean has more that can go wrong.
SPOKEN = language.LANGUAGES if WHOLE else ("ko",)

Item = TypeVar("Item")


def sample(items: Sequence[Item], one_in: int = SAMPLED) -> Sequence[Item]:
    """All of them, or one in so many: the same ones each time."""
    return items if WHOLE else items[::one_in]
