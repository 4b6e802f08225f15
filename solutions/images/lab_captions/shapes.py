"""Drawn images of two shapes, and their captions by rule, in English or Korean."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

SIDE, PATCH = 32, 8
QUADRANT = SIDE // 2
RADIUS = 6.5  # pixels: a shape takes up the patches of its quadrant
COLOURS = ((0.85, 0.2, 0.2), (0.15, 0.65, 0.3), (0.2, 0.4, 0.9), (0.9, 0.75, 0.1))
CIRCLE, SQUARE, TRIANGLE = 0, 1, 2
APART = ((1, CIRCLE), (0, TRIANGLE))  # a green circle and a red triangle are in no image to learn from

Sentence = tuple[str, ...]
COLOUR_WORDS = {"en": ("red", "green", "blue", "yellow"), "ko": ("빨간", "초록", "파란", "노란")}
SHAPE_WORDS = {"en": ("circle", "square", "triangle"), "ko": ("원", "네모", "세모")}
PLACE_WORDS = {
    "en": (("top", "left"), ("top", "right"), ("bottom", "left"), ("bottom", "right")),
    "ko": (("왼쪽", "위"), ("오른쪽", "위"), ("왼쪽", "아래"), ("오른쪽", "아래")),
}


@dataclass(frozen=True)
class Shape:
    """A shape in a quadrant (0 to 3, row by row), moved by some pixels."""

    colour: int
    form: int
    quadrant: int
    moved: tuple[int, int]

    @property
    def centre(self) -> tuple[float, float]:
        """Row and column, in pixels."""
        row, column = divmod(self.quadrant, 2)
        return (row + 0.5) * QUADRANT + self.moved[0], (column + 0.5) * QUADRANT + self.moved[1]

    @property
    def is_apart(self) -> bool:
        """Whether no image to learn from has it."""
        return (self.colour, self.form) in APART

    def covers(self) -> Tensor:
        """The pixels that it covers: (SIDE, SIDE), boolean."""
        row, column = self.centre
        down = torch.arange(SIDE)[:, None] + 0.5 - row
        right = torch.arange(SIDE)[None, :] + 0.5 - column
        if self.form == CIRCLE:
            return down**2 + right**2 <= RADIUS**2
        inside = (down.abs() <= RADIUS) & (right.abs() <= RADIUS)
        return inside if self.form == SQUARE else inside & (right.abs() <= (down + RADIUS) / 2)

    def said(self, spoken: str) -> Sentence:
        """`red circle top left`; in Korean the place comes first."""
        what = (COLOUR_WORDS[spoken][self.colour], SHAPE_WORDS[spoken][self.form])
        place = PLACE_WORDS[spoken][self.quadrant]
        return (*what, *place) if spoken == "en" else (*place, *what)


@dataclass(frozen=True)
class Drawing:
    """An image of two shapes, in reading order."""

    shapes: tuple[Shape, Shape]

    @property
    def pixels(self) -> Tensor:
        """(3, SIDE, SIDE), on black."""
        image = torch.zeros(3, SIDE, SIDE)
        for shape in self.shapes:
            image = torch.where(shape.covers(), torch.tensor(COLOURS[shape.colour])[:, None, None], image)
        return image

    def caption(self, spoken: str) -> Sentence:
        """What it shows."""
        first, second = self.shapes
        return (*first.said(spoken), ",", *second.said(spoken))


class Drawings:
    """Draws them; `apart` ones have a shape of a kind that is in no other."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self, count: int, apart: bool = False) -> list[Drawing]:
        """So many."""
        found: list[Drawing] = []
        while len(found) < count:
            drawing = self._one()
            if any(shape.is_apart for shape in drawing.shapes) == apart:
                found.append(drawing)
        return found

    def _one(self) -> Drawing:
        draw = self._random
        first, second = (
            Shape(draw.randrange(4), draw.randrange(3), quadrant, (draw.randint(-1, 1), draw.randint(-1, 1)))
            for quadrant in sorted(draw.sample(range(4), 2))
        )
        return Drawing((first, second))


def example() -> Drawing:
    """The one whose map is shown."""
    return Drawing((Shape(0, CIRCLE, 0, (0, 0)), Shape(2, TRIANGLE, 3, (0, 0))))


def sentences(spoken: str) -> list[Sentence]:
    """Captions that hold every word there is."""
    return [
        (*Shape(colour, form, quadrant, (0, 0)).said(spoken), ",")
        for colour in range(4)
        for form in range(3)
        for quadrant in range(4)
    ]
