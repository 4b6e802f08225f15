"""No pattern of the kit backtracks over what a student sent: each is run over long strings made from itself to confuse
it, and has to end after a number of steps that grows with their length."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import grader
from grader.base import language
from grader.judge import shared_worker
from tests import whole

LENGTH = 150_000  # characters: some minutes, if each is looked at once for each other
WORDS = 10  # of an alternation: more of them confuse no more
SECONDS = 0.4  # of processor time: a pattern that looks at each a few times takes some milliseconds
ROOT = Path(grader.__file__).parent
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")


class TooLong(Exception):
    """A pattern has used its time."""


@cache
def sources() -> dict[str, str]:
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in ROOT.rglob("*.py")}


@cache
def patterns() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """Every compiled pattern of a module of the kit, with the methods that anything calls on its name."""
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for module in pkgutil.walk_packages([str(ROOT)], "grader."):
        if module.name == "grader.__main__":
            continue
        try:
            names = vars(importlib.import_module(module.name))
        except ImportError:  # a package that is not everywhere
            continue
        for name, value in names.items():
            if isinstance(value, re.Pattern) and value not in [pattern for pattern, _used in found.values()]:
                found[f"{module.name}.{name}"] = value, methods(module.name, name)
            for key, each in within(value):
                found[f"{module.name}.{name}[{key}]"] = each, frozenset({"search"})
    everything = frozenset({"search"})
    found |= {"the other modules of shared_worker": (shared_worker._other_modules(), everything)}
    return found | inline() | {"language.COMMAND": (re.compile(language.COMMAND), everything)}


def within(value: Any, key: str = "") -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns in a table or a list, however deep, each with the place."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple | list) else ()
    for place, each in pairs:
        if isinstance(each, re.Pattern):
            yield f"{key}{place}", each
        else:
            yield from within(each, f"{key}{place}.")


# The patterns that are made while the kit runs, by file, and the reason why no text of a student makes one slow.
MADE = {
    "base/language.py": "a constant, tried here by its name",
    "cli/main.py": "of a command's options, over a sentence of ours",
    "judge/shared_worker.py": "of names of modules, tried here",
    "operators/expressions.py": "of a role's name, over a name in a reference",
    "oracle/wrong_ways.py": "of an author's edit, over a reference",
    "publish/site.py": "a constant, over our pages",
    "report/reasons.py": "of a sentence of ours, over a message, which has a bound",
}


def test_each_pattern_made_at_run_time_is_known() -> None:
    found = set()
    for file, text in sources().items():
        tree = ast.parse(text)
        constant = {
            id(part) for line in tree.body if isinstance(line, ast.Assign | ast.AnnAssign) for part in ast.walk(line)
        }
        for call in ast.walk(tree):
            match call:
                case ast.Call(ast.Attribute(ast.Name("re"), "compile")) if id(call) not in constant:
                    found.add(file)
                case ast.Call(ast.Attribute(ast.Name("re"), method), [first, *_more]) if method in METHODS:
                    found |= set() if isinstance(first, ast.Constant) or id(call) in constant else {file}
    assert found == MADE.keys()


def inline() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """The patterns that are written into a call, as in `re.search(r"…", text)`."""
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for file, text in sources().items():
        for call in ast.walk(ast.parse(text)):
            match call:
                case ast.Call(ast.Attribute(ast.Name("re"), method), [ast.Constant(pattern), *_more]) if (
                    method in METHODS and isinstance(pattern, str | bytes)
                ):
                    flags = [ast.unparse(each.value) for each in call.keywords if each.arg == "flags"]
                    flags += [name for name in map(ast.unparse, call.args[1:]) if re.fullmatch(r"re\.[A-Z]+", name)]
                    compiled = re.compile(pattern, eval("|".join(flags) or "0", {"re": re}))
                    found[f"{file}:{call.lineno}"] = compiled, frozenset({method})
    return found


def methods(module: str, name: str) -> frozenset[str]:
    """What is called on a pattern in its own module, else in any; without a call, the strictest two."""
    own = sources().get(f"{module.removeprefix('grader.').replace('.', '/')}.py", "")
    for text in (own, "\n".join(sources().values())):
        if called := set(re.findall(rf"\b{name}\.(\w+)\(", text)) & set(METHODS):
            return frozenset(called)
    return frozenset({"search", "fullmatch"})


# --- strings that confuse -------------------------------------------------------------------------------------------


def sample(parsed: Any, depth: int = 0) -> str:
    """A short string that a part of a pattern matches, as far as that can be said without trying."""
    return "".join(sample_of(code, value, depth) for code, value in parsed) if depth < 8 else ""


def sample_of(code: Any, value: Any, depth: int) -> str:
    match code:
        case codes.LITERAL:
            return chr(value)
        case codes.NOT_LITERAL:
            return "a" if value != ord("a") else "b"
        case codes.ANY:
            return "a"
        case codes.IN:
            return one_in(value)
        case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
            least, _most, inner = value
            return sample(inner, depth + 1) * max(least, 1)
        case codes.SUBPATTERN:
            return sample(value[3], depth + 1)
        case codes.ATOMIC_GROUP:
            return sample(value, depth + 1)
        case codes.BRANCH:
            return sample(value[1][0], depth + 1)
    return ""


CATEGORIES = {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a",
              codes.CATEGORY_NOT_SPACE: "a", codes.CATEGORY_NOT_WORD: "-", codes.CATEGORY_NOT_DIGIT: "a"}  # fmt: skip


def one_in(members: Any) -> str:
    if members and members[0][0] is codes.NEGATE:
        letters = map(chr, (*range(97, 127), *range(32)))
        return next(letter for letter in letters if re.fullmatch(class_of(members), letter))
    for code, value in members:
        if code is codes.LITERAL:
            return chr(value)
        if code is codes.RANGE:
            return chr(value[0])
        if code is codes.CATEGORY:
            return CATEGORIES[value]
    return "a"


def class_of(members: Any) -> str:
    """The set as a pattern again."""
    text = ""
    for code, value in members[1:]:
        match code:
            case codes.LITERAL:
                text += re.escape(chr(value))
            case codes.RANGE:
                text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
            case codes.CATEGORY:
                text += {"1": r"\d", " ": r"\s"}.get(CATEGORIES[value], r"\w")
    return f"[^{text}]"


def pumps(parsed: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What may stand before something that repeats, and what it repeats, wherever it is in a pattern."""
    for code, value in parsed:
        match code:
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                yield before, sample(value[2])
                yield from pumps(value[2], before)
            case codes.SUBPATTERN:
                yield from pumps(value[3], before)
            case codes.ATOMIC_GROUP:
                yield from pumps(value, before)
            case codes.BRANCH:
                for index, branch in enumerate(value[1]):
                    is_word = all(part is codes.LITERAL for part, _letter in branch)
                    if not is_word or index < WORDS:
                        yield before, sample(branch)
                        yield from pumps(branch, before)
        before += sample_of(code, value, 0)
        yield "", before  # all of it so far, again and again
        yield "", before + "\n"


def confusing(pattern: re.Pattern[Any]) -> Iterator[Any]:
    parsed = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else 0)
    repeated = dict.fromkeys((before, again) for before, again in pumps(parsed) if again)
    letters = dict.fromkeys(("", again[0]) for _before, again in repeated)
    for before, again in {**repeated, **letters}:
        for after in ("", "\0"):
            text = before + again * (LENGTH // len(again)) + after
            yield text.encode("latin-1", "ignore") if isinstance(pattern.pattern, bytes) else text


def run(pattern: re.Pattern[Any], method: str, text: Any) -> None:
    if method == "sub":
        pattern.sub(lambda match: match[0], text)
    elif method in ("finditer", "findall"):
        sum(1 for _match in pattern.finditer(text))
    else:
        getattr(pattern, method)(text)


def too_slow(pattern: re.Pattern[Any], methods: frozenset[str]) -> str | None:
    """The beginning of a string that takes too long; None without one."""

    def stop(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        for text in confusing(pattern):
            for method in sorted(methods):
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                run(pattern, method, text)
    except TooLong:
        return f"{method}({text[:40]!r}…{text[-3:]!r})"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return None


def test_it_finds_what_backtracks() -> None:
    everything = frozenset({"search", "fullmatch"})
    for bad in (
        r"(?:[ _-]*(?:copy|\d)|[ _-]+)*",
        r"(a+)+b",
        r"(a|a)*b",
        r"(?m)^from (\([^)]*\)|\n)",
        r"x*x*y",
        r".+?-b",
    ):
        assert too_slow(re.compile(bad), everything), bad
    for good in (r"(?:[ _-]|copy)*+", r"a*b", r"\w+"):
        assert too_slow(re.compile(good), frozenset({"fullmatch"})) is None, good


@pytest.mark.parametrize("name", whole.sample([*patterns()], 3))
def test_no_pattern_backtracks(name: str) -> None:
    assert too_slow(*patterns()[name]) is None
