"""Python's parser, for one thread at a time."""

from __future__ import annotations

import ast
import threading

_parsing = threading.Lock()


def parsed(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """What `ast.parse` gives, and raises. Python 3.11 counts the depth of a tree for all threads together: of two that
    parse at once, one may get a SystemError."""
    with _parsing:
        return ast.parse(source, name)
