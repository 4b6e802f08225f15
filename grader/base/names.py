"""Compares people's names by how they look; they are displayed unchanged. Two people with names that look alike are
ambiguous: nothing that names one of them is applied, and their login or address decides."""

from __future__ import annotations

import itertools
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

UNSEEN = ("VARIATION SELECTOR", "COMBINING GRAPHEME JOINER", "HANGUL FILLER", "HANGUL CHOSEONG FILLER")


def _composed(name: str) -> str:
    """A name in Unicode's composed form (NFC): a Mac decomposes Hangul and accents."""
    return unicodedata.normalize("NFC", name)


def look(name: str) -> str:
    """A key for names or logins that look the same: without case, width, kinds of space and invisible characters.

    A platform lets its users choose their names, so that "Karl" may start with the sign of the unit kelvin.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join("".join(letter for letter in folded if not _is_unseen(letter)).split())


def _is_unseen(letter: str) -> bool:
    """Whether a letter leaves no mark on the screen."""
    return unicodedata.category(letter) == "Cf" or unicodedata.name(letter, "").startswith(UNSEEN)


def _is_plain(letter: str) -> bool:
    """Whether a letter can be seen, and is not another form of one that looks the same."""
    return letter.isprintable() and unicodedata.is_normalized("NFKC", letter) and not _is_unseen(letter)


def alike(names: Iterable[str]) -> list[list[str]]:
    """The different names that look the same, as they came: each group has at least two, and is ambiguous."""
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    for name in names:
        groups[look(name)][name] = None
    return [list(group) for group in groups.values() if len(group) > 1]


def told_apart(name: str, login: str = "") -> str:
    """An ambiguous name, so that a reader sees which one it is: with the login, and its odd letters as escapes."""
    is_plain = name == _composed(name)
    plain = "".join(letter if is_plain and _is_plain(letter) else ascii(letter)[1:-1] for letter in name)
    return f"{plain} ({login})" if login and not name.endswith(f"({login})") else plain


class Roll:
    """The names of a class, and for each the logins by which a table may know the same person; `bare` are names without
    what was added to tell people apart."""

    def __init__(self, names: Mapping[str, Iterable[str]], bare: Mapping[str, str] = {}) -> None:
        """`names`: the logins of each name; `bare`: the bare name of each name that has one."""
        self._names: dict[str, set[str]] = defaultdict(set)
        self._logins: dict[str, set[str]] = defaultdict(set)
        self._login: dict[str, str] = {}
        for name, logins in names.items():
            self._names[look(name)].add(name)
            for login in filter(None, logins):
                self._logins[look(login)].add(name)
                self._login.setdefault(name, login)
        for name, plain in bare.items():
            self._names[look(plain)].add(name)

    def meant(self, name: str) -> list[str]:
        """The class's names, sorted, of all students that a name, a login or an address in a table may refer to.

        An address is decided by the logins: a name may be whatever its owner likes.
        """
        logins = self._logins.get(look(name), set())
        if "@" in name and logins:
            return sorted(logins)
        return sorted(logins | self._names.get(look(name), set()))

    def own(self, name: str) -> str:
        """The class's name of the one person referred to; the given name itself if the class has no such person. Only
        for names that are not ambiguous."""
        meant = self.meant(name)
        return meant[0] if len(meant) == 1 else name

    def is_ambiguous(self, name: str) -> bool:
        """True if the name may refer to several people: then nothing that the table says is applied."""
        return len(self.meant(name)) > 1

    def shown(self, names: Iterable[str]) -> str:
        """Ambiguous people in one line, each with the login by which a table can name them."""
        return ", ".join(told_apart(name, self._login.get(name, "")) for name in names)

    def ambiguous(self) -> list[list[str]]:
        """The groups of people that a table can't tell apart by name: both are to be listed."""
        return [sorted(names) for names in self._names.values() if len(names) > 1]


def rows(seen: Mapping[str, Iterable[tuple[str, str]]]) -> dict[tuple[str, str], str]:
    """The names of the rows in one table for several assignments, by (name, login); `seen` has these pairs for each
    assignment.

    They are one person if their names look the same, and no assignment has two of them, nor have they two logins.
    """
    groups: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    several = set()
    for people in seen.values():
        found: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for name, login in people:
            groups[look(name)][name, login] = None
            found[look(name)].add((name, login))
        several |= {looks for looks, pairs in found.items() if len(pairs) > 1}
    called: dict[tuple[str, str], str] = {}
    for looks, pairs in groups.items():
        apart = looks in several or len({look(login) for _name, login in pairs if login}) > 1
        first, taken = next(iter(pairs))[0], set(called.values())
        for name, login in pairs:
            row = told_apart(name, login) if apart else first
            called[name, login] = next(free for free in _numbered(row) if free not in taken)
            taken |= {called[name, login]} if apart else set()
    return called


def _numbered(name: str) -> Iterator[str]:
    """Yields the name, then `name [2]`, `name [3]` and so on without end."""
    yield name
    yield from (f"{name} [{number}]" for number in itertools.count(2))
