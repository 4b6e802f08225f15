"""`make readme`: the picture of the engine's rooms and floors, drawn from the import contracts of pyproject.toml."""

from __future__ import annotations

import ast
import tomllib
from html import escape

from grader.base.paths import ROOT

PICTURE = ROOT / "docs" / "images" / "floors.svg"
WIDTH, ROW, GAP = 960, 76, 8  # pixels
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.room{fill:#f6f8fa;stroke:#8c959f}.name{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.room{fill:#161b22;stroke:#6e7681}}"
)


def floors() -> list[list[str]]:
    """The rooms of each floor, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "floors")
    return [[room.strip() for room in layer.split("|")] for layer in layers]


def purpose(room: str) -> str:
    """The docstring of a room, or of a module at the door."""
    folder = ROOT / "grader" / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").splitlines()[0]


def _wrapped(text: str, width: float) -> list[str]:
    lines, most = [""], int(width / 7.4)
    for word in text.split():
        if len(lines[-1]) + len(word) > most:
            lines.append("")
        lines[-1] += f"{word} "
    return lines[:3]


def picture() -> str:
    """The picture as SVG: a row for each floor; a room imports only from the rows below it."""
    drawn: list[str] = []
    rows = floors()
    for row, rooms in enumerate(rows):
        width = (WIDTH - GAP * (len(rooms) + 1)) / len(rooms)
        for place, room in enumerate(rooms):
            x, y = GAP + place * (width + GAP), GAP + row * ROW
            drawn.append(f'<rect class="room" x="{x:g}" y="{y}" width="{width:g}" height="{ROW - GAP}" rx="4"/>')
            drawn.append(f'<text class="name" x="{x + 8:g}" y="{y + 18}">{escape(room)}</text>')
            for line, text in enumerate(_wrapped(purpose(room), width - 16)):
                drawn.append(
                    f'<text x="{x + 8:g}" y="{y + 34 + 14 * line}" font-size="11">{escape(text.strip())}</text>'
                )
    height = GAP + len(rows) * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        "<title>The rooms of grader/, floor by floor: each imports only from the floors below</title>"
        f"<style>{STYLE}</style>{''.join(drawn)}</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
