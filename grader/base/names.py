"""When two names are the same: they are compared so, and shown as they came."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping


def same(name: str) -> str:
    """A name in one of the ways in which Unicode writes it: a Mac takes Hangul and accents apart."""
    return unicodedata.normalize("NFC", name)


def same_login(name: str) -> str:
    """A login, in which neither case nor the width of letters counts."""
    return unicodedata.normalize("NFKC", name).casefold()


class Roll:
    """The names of a class, and for each the logins by which a table may know the same person."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        self._names = {same(name): name for name in names}
        self._logins: dict[str, set[str]] = {}
        for name, logins in names.items():
            for login in (name, *logins):
                self._logins.setdefault(same_login(login), set()).add(name)

    def own(self, name: str) -> str:
        """What the class calls somebody; the name itself where nobody, or more than one, is meant."""
        meant = self._logins.get(same_login(name), set())
        return self._names.get(same(name)) or (next(iter(meant)) if len(meant) == 1 else name)
