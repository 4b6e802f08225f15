"""How much is tried: `make test` and CI take few seeds and a sample, `make check` takes everything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

WHOLE = bool(os.environ.get("KIT_WHOLE"))
SAMPLED = 6  # one in so many

Item = TypeVar("Item")


def sample(items: Sequence[Item], one_in: int = SAMPLED) -> Sequence[Item]:
    """All of them, or one in so many: the same ones each time."""
    return items if WHOLE else items[::one_in]
