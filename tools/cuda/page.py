"""The page of a run: findings, plots and tables, one file without scripts; in English and Korean."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.labs import plot
from grader.report.page import coded, environment

Words = dict[str, Any]  # sentences by name; under `names` those of the contestants, in a fixed order
Found = dict[str, Any]
Picture = tuple[str, Markup]
Table = tuple[str, list[str], list[list[str]]]

HERE = Path(__file__).parent
STYLES = Path(plot.__file__).parent / "templates"  # a page of a lab would need one package more
KERNEL_GOAL, MEMORY_GOAL = 1.3, 1.0


def html(found: Found, spoken: str) -> str:
    """The whole page in one language."""
    words: Words = json.loads((HERE / f"words.{spoken}.json").read_text(encoding="utf-8"))
    can_draw = importlib.util.find_spec("matplotlib") is not None
    machine = found["machine"]
    facts = [
        (words["machine"], machine["name"]),
        (words["device"], found["device"]),
        *((name, machine[name]) for name in ("driver", "torch", "cuda", "TF32", "triton", "python") if machine[name]),
        (words["date"], found["date"]),
        (words["seconds"], f"{found['seconds']:.0f}"),
    ]
    notes = [words["cpu"]] * (found["device"] == "cpu") + [words["quick"]] * found["quick"]
    return (
        environment(STYLES, HERE)
        .get_template("page.html.j2")
        .render(
            language=spoken, words=words, about=coded(words["about"]), notes=notes, facts=facts,
            findings=list(findings(found, words)), pictures=pictures(found, words) if can_draw else [],
            no_plots="" if can_draw else words["no_plots"], tables=list(tables(found, words)),
        )
    )  # fmt: skip


def findings(found: Found, words: Words) -> Iterator[str]:
    """What was found, a sentence each."""
    graded = [one for one in found["graded"] if one["score"] is not None]
    passed = sum(one["status"] == "pass" for one in graded)
    yield words["f_graded"].format(passed=passed, count=len(graded), device=found["device"])
    if lacking := [one["step"] for one in found["graded"] if one["score"] is None and one["status"] == "skipped"]:
        yield words["f_lacking"].format(steps=", ".join(lacking))
    if found["not_graded"]:
        yield words["f_late"].format(count=found["not_graded"])
    sums = {
        name: sum(one[name] for one in found["right_and_wrong"])
        for name in ("variants", "passed", "wrong_ways", "refused", "not_tried")
    }
    yield words["f_right"].format(passed=sums["passed"], count=sums["variants"])
    yield words["f_wrong"].format(refused=sums["refused"], count=sums["wrong_ways"])
    if sums["not_tried"]:
        yield words["f_not_tried"].format(count=sums["not_tried"])
    yield from (words["f_failed"].format(reason=reason) for reason in found["failed"])
    if found["halves"]:
        yield from _halves(found, words)
    yield from _goals(found["flash"]["goals"], words)


def _halves(found: Found, words: Words) -> Iterator[str]:
    half, single = found["halves"]["float16"], found["halves"]["float32"]
    yield words["f_half"].format(
        before=half["before"], after=half["after"], single=single["after"], steps=found["halves"]["steps"]
    )
    overflow = found["halves"]["overflow"]
    went_well = overflow["parameters_kept"] and overflow["goes_on"]
    yield words["f_overflow" if went_well else "f_overflow_wrong"].format(
        first=math.log2(overflow["scale_before"]), last=math.log2(overflow["scale_after"])
    )


def _goals(goals: dict[str, float | None], words: Words) -> Iterator[str]:
    for name, goal, is_held in (
        ("kernel", KERNEL_GOAL, lambda ratio: ratio <= KERNEL_GOAL),
        ("memory", MEMORY_GOAL, lambda ratio: ratio < MEMORY_GOAL),
    ):
        ratio = goals[name]
        if ratio is None:
            yield words[f"f_no_{name}"]
        else:
            yield words[f"f_{name}"].format(
                ratio=ratio, verdict=words["held" if is_held(ratio) else "not_held"], goal=goal
            )


def pictures(found: Found, words: Words) -> list[Picture]:
    """Time and memory, forward and with the backward pass, on logarithmic axes; then the losses."""
    made = []
    for backward, which in ((False, "forward"), (True, "both")):
        for figure in ("ms", "MiB"):
            rows = [row for row in found["flash"]["rows"] if row["backward"] == backward and figure in row]
            if rows:
                made.append(_lines(rows, figure, words[f"{which}_{figure}"], words))
    if not found["halves"]:
        return made
    with plot.drawing() as drawing:
        for number, precision in enumerate(("float32", "float16")):
            losses = found["halves"][precision]["losses"]
            drawing.axes.plot(range(1, len(losses) + 1), losses, label=precision, **plot.line(number))
        drawing.axes.set_xlabel(words["step"])
        drawing.axes.legend()
    return [*made, (words["loss"], Markup(drawing.svg))]


def _lines(rows: list[dict[str, Any]], figure: str, title: str, words: Words) -> Picture:
    from matplotlib import ticker  # it may be missing; then nothing is drawn

    names = list(dict.fromkeys(row["name"] for row in rows))
    lengths = sorted({row["T"] for row in rows})
    with plot.drawing() as drawing:
        for name in names:
            own = [row for row in rows if row["name"] == name]
            drawing.axes.plot(
                [row["T"] for row in own],
                [row[figure] for row in own],
                label=words["names"][name],
                **plot.style(list(words["names"]).index(name)),
            )
        drawing.axes.set_xscale("log", base=2)
        drawing.axes.set_yscale("log")
        drawing.axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        drawing.axes.yaxis.set_major_formatter("{x:,g}")
        drawing.axes.yaxis.set_minor_locator(ticker.NullLocator())
        drawing.axes.set_xticks(lengths, [f"{one:,}" for one in lengths])
        drawing.axes.set_xlabel(words["length"])
        drawing.axes.legend(fontsize=9)
    return title, Markup(drawing.svg)


def tables(found: Found, words: Words) -> Iterator[Table]:
    """The same as figures, then every step."""
    flash = found["flash"]
    lengths = sorted({row["T"] for row in flash["rows"]})
    said = words["attention"].format(**flash)
    for backward, which in ((False, "forward"), (True, "both")):
        for figure in ("ms", "MiB"):
            rows = []
            for name in dict.fromkeys(row["name"] for row in flash["rows"] if row["backward"] == backward):
                own = {row["T"]: row for row in flash["rows"] if row["name"] == name and row["backward"] == backward}
                cells = [_cell(own.get(length), figure, words) for length in lengths]
                rows.append([words["names"][name], *cells])
            if rows:
                yield f"{words[f'{which}_{figure}']} ({said})", ["T", *(f"{one:,}" for one in lengths)], rows
    errors = [
        [words["names"][name], words["none"].format(reason=error) if isinstance(error, str) else f"{error:.1e}"]
        for name, error in flash["errors"].items()
    ]
    yield words["error"], ["", ""], errors
    device = found["device"]
    graded = [
        [one["step"], words["error_status" if one["status"] == "error" else one["status"]],
         f"{'–' if one['score'] is None else format(one['score'], 'g')} / {one['of']:g}", f"{one['seconds']:.1f}",
         one["said"]]
        for one in found["graded"]
    ]  # fmt: skip
    columns = [words["step"], words["status"], words["points"], words["seconds"], words["said"]]
    yield words["t_graded"].format(device=device), columns, graded
    tried = [
        [one["step"], f"{one['passed']} / {one['variants']}", f"{one['refused']} / {one['wrong_ways']}",
         f"{one['seconds']:.1f}", " · ".join(one["surprises"])]
        for one in found["right_and_wrong"]
    ]  # fmt: skip
    columns = [words["step"], words["variants"], words["wrong_ways"], words["seconds"], words["surprises"]]
    yield words["t_wrong"].format(device=device), columns, tried


def _cell(row: dict[str, Any] | None, figure: str, words: Words) -> str:
    if row is None:
        return ""
    if "failed" in row:
        return words["error_status"]
    return (
        words["oom"] if "out_of_memory" in row else f"{row[figure]:.3g}" if row[figure] < 100 else f"{row[figure]:,.0f}"
    )
