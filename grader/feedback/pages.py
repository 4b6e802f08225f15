"""The pages of a term, each a file that needs nothing else: slides without names, code next to diagnosis, items, pairs.

Pure functions from data to HTML, in the language in use. Everything can be read without a script; a few lines of one
sort and filter. Whatever a learner or a folder's name could have made is made visible and escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.base import language
from grader.base.language import gettext as _
from grader.feedback.class_page import of_students, percent
from grader.feedback.items import Cluster, Item
from grader.feedback.mistakes import Maker, Mistake
from grader.feedback.similarity import HONEST, SameFile, SimilarPair, Sources
from grader.report.page import HeatMap, coded, environment, heat_map

TEMPLATES = Path(__file__).parent / "templates"
AT_LEAST = 2  # students who made a mistake that is projected: of one alone, everyone would guess whose it is
WITH_SOURCES = 20  # pairs whose files are shown side by side
SHOWN_PAIRS = 100


def slides(mistakes: Sequence[Mistake], total: int, *, title: str = "", at_least: int = AT_LEAST) -> str:
    """The HTML of slides for the class: one for each mistake that `at_least` so many students made, without names.
    `total`: the number of students; `title`: the assignment's."""
    shown = [mistake for mistake in mistakes if len(mistake.makers) >= at_least]
    about = _("One mistake on each slide, the most common first; no student is named. The arrow keys turn the slides.")
    heading = _titled(_("What to talk about"), title)
    return page(
        "slides.html.j2", heading, about, scripts=("sort.js", "slides.js"), mistakes=shown, total=total,
        steps=_steps(mistake.step for mistake in shown), orders=_orders(),
        heat_map=lambda one, place: _picture(one.result.parting, f"{one.step}-{place}"),
    )  # fmt: skip


def staff(mistakes: Sequence[Mistake], total: int, *, title: str = "") -> str:
    """The HTML of a page for staff: each student's code next to the diagnosis, of a class of `total` students."""
    about = _("For staff only: it names students. One entry for each student and mistake.")
    heading = _titled(_("Code next to diagnosis"), title)
    return page(
        "staff.html.j2", heading, about, mistakes=mistakes, total=total,
        steps=_steps(mistake.step for mistake in mistakes), orders=_orders(), maker_map=_maker_picture,
    )  # fmt: skip


def items(analysis: Sequence[Item], clusters: Sequence[Cluster], total: int, *, results: str, title: str = "") -> str:
    """The HTML of a page of the checks as items, those that no student fails, and unrecognised wrong answers; `results`
    is the class's folder as it is typed."""
    about = _("What each check found in this class. One class is little data: look again after the next one.")
    heading = _titled(_("The checks of this class"), title)
    orders = [
        ("place 1", _("in the order of the steps")),
        ("passed -1", _("most passed first")),
        ("passed 1", _("fewest passed first")),
        ("tells 1", _("lowest discrimination first")),
    ]
    return page(
        "items.html.j2", heading, about, items=analysis, clusters=clusters, total=total, orders=orders,
        silent=[item for item in analysis if item.nobody_fails], steps=_steps(item.step for item in analysis),
        draft=lambda number: f"python -m grader items {results} --draft {number}",
    )  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One step of a pair: the share alike, and for each of the two its name and its lines, which of them are alike."""

    step: str
    share: float
    texts: list[tuple[str, list[tuple[str, bool]]]]


@dataclass(frozen=True)
class PairView:
    """A pair as the page shows it."""

    pair: SimilarPair
    said: str
    step: str
    sides: list[Side]
    open: bool


def similar(pairs: Sequence[SimilarPair], groups: Sequence[SameFile], students: Sources, known_sources: Sources) -> str:
    """The HTML of a page of the pairs that are more alike than chance, the most alike first, with both sources side by
    side, and of the groups with the same file."""
    views = [_pair_view(pair, index, students, known_sources) for index, pair in enumerate(pairs[:SHOWN_PAIRS])]
    about = _("For staff only: it names students. It is a reason to look and to ask, never a verdict.")
    pairs_what = _(
        "The share of the smaller submission that is also in the other one. Not counted: what was released, what "
        "much of the class wrote, names, comments and the order of functions. In our test, made-up people who "
        "wrote by themselves stay below {share}."
    ).format(share=percent(HONEST))
    orders = [("share -1", _("most alike first")), ("share 1", _("least alike first"))]
    return page(
        "similar.html.j2", _("Similar submissions"), about, pairs_what=pairs_what, pairs=views, groups=groups,
        cannot=_cannot(), orders=orders, steps=_steps(view.step for view in views),
    )  # fmt: skip


def _cannot() -> list[str]:
    """Sentences on what a comparison of submissions can't show."""
    return [
        _("Who wrote it first, or whether anybody did wrong: two people who may work together look like this."),
        _("Whether a short answer was copied: there are few ways to write three lines, so short steps count little."),
        _(
            "That a pair is innocent: a student who rewrites an answer completely, or has a program do it, "
            "shares no text with it."
        ),
        _("Anything about files that are not Python, or that were not in the compared folders."),
    ]


def _pair_view(pair: SimilarPair, index: int, students: Sources, known_sources: Sources) -> PairView:
    """The pair number `index`, from 0, as the page shows it; the first WITH_SOURCES pairs with their files side by
    side."""
    second = (known_sources if pair.is_known else students).get(pair.second, {})
    steps = sorted(pair.lines, key=lambda step: -pair.steps[step]) if index < WITH_SOURCES else []
    sides = [
        Side(step, pair.steps[step], [
            (name, _marked(sources.get(step, ""), lines))
            for name, sources, lines in zip(
                (pair.first, pair.second), (students[pair.first], second), pair.lines[step], strict=True
            )
        ])
        for step in steps
    ]  # fmt: skip
    sentence = (
        _("{percent} of {first} is in {second}, a known source.")
        if pair.is_known
        else _("{percent} of the smaller one is in the other.")
    )
    text = sentence.format(percent=percent(pair.share), first=pair.first, second=pair.second)
    step = max(pair.steps, key=lambda step: pair.steps[step], default="")
    return PairView(pair, text, step, sides, open=index == 0)


def _marked(source: str, lines: frozenset[int]) -> list[tuple[str, bool]]:
    """The lines of a source, each with whether its number, from 1, is among `lines`."""
    return [(text, number in lines) for number, text in enumerate(source.splitlines(), 1)]


# --- every page ------------------------------------------------------------------------------------------------------


def page(template: str, title: str, about: str, scripts: Iterable[str] = ("sort.js",), **values: Any) -> str:
    """The HTML of a page: the template of this file name, with its title, a sentence about it, the only scripts that it
    may run, by file name, and the template's other values."""
    texts = [(TEMPLATES / name).read_text(encoding="utf-8") for name in scripts]
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return environment(TEMPLATES).get_template(template).render(
        language=language.current(), title=title, about=about, coded=coded,
        of_students=of_students, percent=percent,
        style=Markup((TEMPLATES / "term.css").read_text(encoding="utf-8")),
        scripts=[Markup(text) for text in texts],
        allowed=Markup(" ".join(f"'sha256-{digest}'" for digest in hashes)),
        **values,
    )  # fmt: skip


def _orders() -> list[tuple[str, str]]:
    """The orders of mistakes: what `sort.js` sorts by, and its label."""
    return [("place 1", _("most students first")), ("students 1", _("fewest students first"))]


def _titled(what: str, title: str) -> str:
    return f"{what}: {title}" if title else what


def _steps(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def _picture(parting: Any, name: str) -> HeatMap:
    return heat_map(parting, name, own=_("got"))


def _maker_picture(maker: Maker, mistake: int, place: int) -> HeatMap:
    """The expected and the actual matrix of a maker's failing check, which must have a `parting`. `mistake` and
    `place`: the numbers, from 0, of the mistake on the page and of the maker in it, for a unique name."""
    assert maker.check.parting is not None
    return heat_map(maker.check.parting, f"maker-{mistake}-{place}", own=_("got"))
