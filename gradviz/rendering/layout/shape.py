"""Chooses which boxes are folded into columns, so that the whole picture fits a page or a screen.

First everything is laid out straight. While the picture is too tall, the box is folded that makes it fit best by an
estimate from the sizes of boxes; then this box and those around it are laid out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from typing import Literal, NamedTuple

from gradviz.rendering.layout.nested_layout import NestedView

Shape = Literal["auto", "tall", "wide", "page"]
SHAPES: tuple[Shape, ...] = ("auto", "tall", "wide", "page")

FRAME_HEIGHT = 190.0
"""About what title, legend and notes add to the height of a picture."""
MAX_ROUNDS = 6
MAX_COLUMNS = 10
MIN_SHARE = 0.2
"""A box that has less of the height than this is not folded."""
FOLD_COST = 0.04
"""A cut is worth this much of the logarithm of the ratio of sides."""


class Target(NamedTuple):
    """The heights over widths that are wanted; `lowest` is only for choosing among pictures that are folded."""

    lowest: float
    highest: float


TARGETS: dict[Shape, Target] = {"auto": Target(0.6, 1.75), "wide": Target(0.45, 0.7), "page": Target(1.2, 1.55)}


@dataclass(frozen=True)
class Size:
    """Of the picture without its frame."""

    width: float
    height: float

    def distance(self, target: Target, *, sideways: bool) -> float:
        """How far the picture is from the target; 0 within it."""
        width, height = (self.height, self.width) if sideways else (self.width, self.height)
        ratio = (height + FRAME_HEIGHT) / max(width, 1.0)
        if ratio > target.highest:
            return log(ratio / target.highest)
        return log(target.lowest / ratio) if ratio < target.lowest else 0.0


@dataclass(frozen=True)
class _Fold:
    box: int | None
    count: int
    score: float


class PageShape:
    """Folds boxes of a nested view until the picture has the wanted shape."""

    def __init__(self, nested: NestedView, lay_out: Callable[[int | None], None], shape: Shape) -> None:
        """`lay_out` lays out one box again, with the columns that are set for it."""
        self._nested, self._lay_out = nested, lay_out
        self._target = TARGETS[shape]
        self._refused: set[tuple[int | None, int]] = set()

    def fold(self) -> None:
        """Fold boxes as long as the picture comes nearer to the target."""
        for _ in range(MAX_ROUNDS):
            size = self._size()
            distance = size.distance(self._target, sideways=self._nested.is_sideways)
            if distance == 0 or not self._is_too_tall(size):
                return
            best = min(self._folds(size), key=lambda fold: fold.score, default=None)
            if best is None or best.score >= distance:
                return
            before = self._nested.columns.get(best.box, 1)
            self._apply(best.box, best.count)
            if self._distance() >= distance:
                self._refused.add((best.box, best.count))
                self._apply(best.box, before)

    def _is_too_tall(self, size: Size) -> bool:
        width, height = (size.height, size.width) if self._nested.is_sideways else (size.width, size.height)
        ratio = (height + FRAME_HEIGHT) / max(width, 1.0)
        return ratio < self._target.lowest if self._nested.is_sideways else ratio > self._target.highest

    def _size(self) -> Size:
        inside = self._nested.inside(None)
        return Size(inside.width, inside.height)

    def _distance(self) -> float:
        return self._size().distance(self._target, sideways=self._nested.is_sideways)

    def _apply(self, box: int | None, count: int) -> None:
        self._nested.columns[box] = count
        for each in self._nested.with_boxes_around(box):
            self._lay_out(each)

    def _folds(self, size: Size) -> Iterator[_Fold]:
        for box in self._nested.open_boxes():
            inside = self._nested.inside(box)
            if inside.height < MIN_SHARE * size.height:
                continue
            now = self._nested.columns.get(box, 1)
            for count in range(2, MAX_COLUMNS + 1):
                if count == now or (box, count) in self._refused:
                    continue
                folded = self._nested.size_in_columns(box, count)
                if folded is None:
                    break
                lower = size.height - (inside.height - folded.height)
                wider = max(size.width, size.width + folded.width - inside.width)
                estimated = Size(wider, lower)
                score = estimated.distance(self._target, sideways=self._nested.is_sideways) + FOLD_COST * (count - 1)
                yield _Fold(box, count, score)
