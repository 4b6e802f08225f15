"""The mistakes that are made of a step's reference, by edits that many steps share and by operators: one public name at
a time, when they are first asked for."""

from __future__ import annotations

import ast
import zlib
from collections import Counter
from collections.abc import Callable, Collection
from functools import cache, cached_property, partial
from typing import Any

from grader.base.mistakes import Unreadable
from grader.checks.catalogue import Misconception
from grader.operators.changes import ChangedText, changes, families
from grader.oracle.wrong_ways import Replacements, WrongWays

OF_A_FAMILY, OF_A_NAME = 4, 80  # the most that a tape keeps: of one mistake, and made by operators in a public name
ROUNDS = 1000  # of a `while` loop, after which a mistake in it is one that never ends
KERNEL = "@triton.jit"


class GeneratedMistakes:
    """The generated mistakes of a step, each in one public name. `touched` gives the names of the reference that use
    one of these."""

    def __init__(self, ways: WrongWays, touched: Callable[[Collection[str]], set[str]]) -> None:
        """Makes mistakes of the reference in `ways`; nothing is made yet."""
        self._ways, self._touched = ways, touched
        self.of = cache(self._of)

    def _of(self, name: str) -> list[Misconception]:
        """The mistakes in a public name, or in a helper of the reference that it uses: those of many steps that fit,
        then those made by operators, in the order of the families. Empty for a helper or an unknown name."""
        if name not in self._ways.definitions or name in self._ways.helpers or self._has_kernel:
            return []
        listed: list[ChangedText] = []
        texts: list[ChangedText] = []
        helpers = [helper for helper in sorted(self._ways.helpers) if name in self._touched({helper})]
        for changed in (name, *helpers):
            listed += [ChangedText(entry, changed, text) for entry, text in self._ways.of_many_steps(changed)]
            texts += changes(changed, self._ways.definitions[changed], name)
        order = list(families())
        texts.sort(key=lambda change: order.index(change.family))
        every: dict[tuple[str, str], ChangedText] = {}
        for change in (*listed, *texts):
            every.setdefault((change.name, change.text), change)
        return [self._misconception(name, number, change) for number, change in enumerate(every.values())]

    @cached_property
    def _has_kernel(self) -> bool:
        """Whether the reference has a Triton kernel. With a mistake, a kernel reads and writes anywhere in memory, and
        may end the judge, in which Triton's interpreter runs it. What a catalogue lists was tried by its author."""
        return any(KERNEL in text for text in self._ways.definitions.values())

    def recorded(self) -> list[Misconception]:
        """The mistakes that a tape (the recorded answers in a learner's kit) has room for, of each public name: at most
        OF_A_FAMILY of each kind, and OF_A_NAME made by operators."""
        chosen: list[Misconception] = []
        for name in self._ways.definitions:
            counts: Counter[str] = Counter()
            for wrong in self.of(name):
                by_operator = sum(counts[family] for family in families())
                if counts[wrong.called] < OF_A_FAMILY and (wrong.called not in families() or by_operator < OF_A_NAME):
                    chosen.append(wrong)
                    counts[wrong.called] += 1
        return chosen

    def _misconception(self, name: str, number: int, change: ChangedText) -> Misconception:
        """A change as a misconception of the public name, the `number`-th there, compiled at first use."""
        said = self._ways.entries_of_many_steps[change.family].said
        return Misconception(
            f"{name}.{change.family}.{number}", "", Replacements([name], lambda: self._compiled(change, name)), *said,
            form_of=change.family, words=change.words,
        )  # fmt: skip

    def _compiled(self, change: ChangedText, name: str) -> dict[str, Any]:
        """The public names that this change replaces, compiled: the changed one, or for a helper all that use it."""
        using = self._touched({change.name}) if change.name in self._ways.helpers else set()
        texts = {
            other: change.text if other == change.name else text
            for other, text in self._ways.definitions.items()
            if other == change.name or other in using
        }
        # A place among mistakes: what an error says of its file tells whether the code itself raised it.
        place = f"mistakes of {change.name}, {change.family}, {zlib.crc32(change.text.encode())}"
        try:
            names = self._ways.run(ended("\n".join(texts.values())), place)
        except Unreadable as error:  # as a default that the change made wrong: no student's answer is like this
            names = {name: partial(_refuse, error)}
        return {name: names[name]}


def _refuse(error: Unreadable, *_args: object, **_named: object) -> None:
    """Raises the error, whatever the arguments."""
    raise error


class _LoopLimit(ast.NodeTransformer):
    """Has each `while` loop raise TimeoutError after ROUNDS rounds."""

    def __init__(self) -> None:
        self.loops = 0

    def visit_While(self, loop: ast.While) -> list[ast.stmt]:  # the name that ast asks for
        """Adds a counter to the loop, and returns its first line and the loop."""
        self.loops += 1
        count, next_round = ast.parse(
            f"_rounds{self.loops} = iter(range({ROUNDS}))\n"
            f"if next(_rounds{self.loops}, None) is None: raise TimeoutError('the loop does not end')"
        ).body
        self.generic_visit(loop)
        loop.body.insert(0, next_round)
        return [count, loop]


def ended(text: str) -> str:
    """The source, changed so that each of its `while` loops raises TimeoutError after ROUNDS rounds: nothing else would
    stop one here, since mistakes are run by the judge and by what records tapes. The same text without such loops."""
    if "while " not in text:
        return text
    loops = _LoopLimit()
    changed = loops.visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(changed)) if loops.loops else text
