"""Other forms of a misconception."""

from typing import Any

from torch import Tensor

Cache = Any  # the file's own class
Pair = tuple[Tensor, Tensor]
