"""Chooses which boxes are folded into columns, so that the whole picture fits a page or a screen.

First everything is laid out straight. While the picture is too tall, a box is folded: a few folds that fit best by an
estimate from the sizes of boxes are laid out, and the best one stays. If the picture is too wide, the widest layer of a
box is broken into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import starmap
from math import log
from typing import Literal, NamedTuple

from gradviz.rendering.layout.columns import Fold
from gradviz.rendering.layout.nested_layout import NestedView

Shape = Literal["auto", "tall", "wide", "page"]
SHAPES: tuple[Shape, ...] = ("auto", "tall", "wide", "page")

FRAME_HEIGHT = 190.0
"""About what title, legend and notes add to the height of a picture."""
MAX_ROUNDS = 6
MAX_COLUMNS = 10
MIN_SHARE = 0.3
"""A box that has less of the height than this is not folded."""
MIN_WIDTH = 250.0
FOLD_COST = 0.07
"""A cut is worth this much of the logarithm of the ratio of sides."""
WIRE_COST = 0.03
"""The same for each wire beyond the first of a cut."""
U_COST = -0.3
"""Below zero: where skips pair up, a U is what people know."""
U_SLACK = 1.3
"""A picture with a U may be taller by this factor: to fold more of it would hide the U."""
MAX_WIDENING = 1.5
"""A U is wider by this factor at most."""
AREA_COST = 0.5
"""The same for the logarithm of the area: what is added is blank."""
MIN_SHARE_OF_WIDTH = 0.8
MAX_STACKED_ROWS = 6
MAX_TRIES = 4
"""How many folds are laid out in each round, those with the best estimates."""


class Target(NamedTuple):
    """The heights over widths that are wanted: above `highest`, boxes are folded; below `lowest`, rows are stacked."""

    lowest: float
    highest: float


TARGETS: dict[Shape, Target] = {"auto": Target(0.55, 2.0), "wide": Target(0.45, 0.7), "page": Target(1.2, 1.55)}


@dataclass(frozen=True)
class Size:
    """Of the picture without its frame."""

    width: float
    height: float


@dataclass(frozen=True)
class _Fold:
    box: int | None
    fold: Fold
    score: float


class PageShape:
    """Folds boxes of a nested view until the picture has the wanted shape."""

    def __init__(self, nested: NestedView, lay_out: Callable[[int | None], None], shape: Shape) -> None:
        """`lay_out` lays out one box again, with the columns that are set for it."""
        self._nested, self._lay_out = nested, lay_out
        self._target = TARGETS[shape]
        self._straight = self._size()

    def fold(self) -> None:
        """Fold boxes as long as the picture comes nearer to the target; stack rows if it is too wide."""
        if self._ratio(self._size()) < self._target.lowest:
            self._stack_rows()
        if self._ratio(self._size()) > self._target.highest:
            self._fold_columns()
            self._widen_u()

    def _widen_u(self) -> None:
        """Move the columns of a U apart, as far as the picture is too tall: its skips run across between them."""
        for box, fold in list(self._nested.folds.items()):
            ratio = self._ratio(self._size()) / self._target.highest
            if fold.is_u and ratio > 1:
                wider = min(ratio, MAX_WIDENING) - 1
                self._apply(box, fold._replace(gap=wider * self._breadth(self._size())))

    def _stack_rows(self) -> None:
        """Break the widest layer of the boxes that make the picture wide."""
        score, size = self._score(self._size()), self._size()
        for box in self._nested.open_boxes():
            if self._nested.inside(box).width < MIN_SHARE_OF_WIDTH * size.width or self._nested.widest_row(box) < 4:
                continue
            for rows in range(2, min(MAX_STACKED_ROWS, self._nested.widest_row(box) // 2) + 1):
                before = self._nested.rows.get(box, 1)
                self._set_rows(box, rows)
                better = self._score(self._size())
                if better >= score:
                    self._set_rows(box, before)
                    break
                score = better
            if self._distance(self._size()) == 0:
                return

    def _set_rows(self, box: int | None, rows: int) -> None:
        self._nested.rows[box] = rows
        self._lay_out_around(box)

    def _fold_columns(self) -> None:
        score = self._score(self._size())
        for _ in range(MAX_ROUNDS):
            tried = [
                (self._tried(fold), fold) for fold in sorted(self._folds(), key=lambda fold: fold.score)[:MAX_TRIES]
            ]
            best_score, best = min(tried, key=lambda pair: pair[0], default=(score, None))
            if best is None or best_score >= score:
                return
            self._apply(best.box, best.fold)
            score = best_score

    def _size(self) -> Size:
        inside = self._nested.inside(None)
        return Size(inside.width, inside.height)

    def _ratio(self, size: Size) -> float:
        """Length along the data over breadth, with the frame."""
        length = size.height if self._nested.is_sideways else size.height + FRAME_HEIGHT
        return length / self._breadth(size)

    def _breadth(self, size: Size) -> float:
        return size.width + FRAME_HEIGHT if self._nested.is_sideways else max(size.width, MIN_WIDTH)

    def _distance(self, size: Size) -> float:
        """How far the picture is from the target; 0 within it."""
        ratio, target = self._ratio(size), self._target
        highest = target.highest * (U_SLACK if any(fold.is_u for fold in self._nested.folds.values()) else 1.0)
        return max(0.0, log(ratio / highest), log(target.lowest / ratio))

    def _score(self, size: Size) -> float:
        """What is to be small: the distance, the blank space that folding adds, and the number of cuts."""
        growth = log(size.width * size.height / (self._straight.width * self._straight.height))
        return self._distance(size) + AREA_COST * growth + sum(starmap(self._cost, self._nested.folds.items()))

    def _cost(self, box: int | None, fold: Fold) -> float:
        cut_wires = self._nested.cut_wires(box, fold) if fold.columns > 1 else 0
        return U_COST if fold.is_u else FOLD_COST * (fold.columns - 1) + WIRE_COST * cut_wires

    def _tried(self, fold: _Fold) -> float:
        """The score of the picture with that fold, which is then undone."""
        before = self._nested.folds.get(fold.box, Fold())
        self._apply(fold.box, fold.fold)
        score = self._score(self._size())
        self._apply(fold.box, before)
        return score

    def _apply(self, box: int | None, fold: Fold) -> None:
        self._nested.folds[box] = fold
        self._lay_out_around(box)

    def _lay_out_around(self, box: int | None) -> None:
        for each in self._nested.with_boxes_around(box):
            self._lay_out(each)

    def _folds(self) -> Iterator[_Fold]:
        """Folds of the boxes that make the picture tall, with a score estimated from their sizes alone."""
        size = self._size()
        for box in self._nested.open_boxes():
            inside = self._nested.inside(box)
            if inside.height < MIN_SHARE * size.height:
                continue
            for fold in (Fold(2, is_u=True), *(Fold(count) for count in range(2, MAX_COLUMNS + 1))):
                folded = None if fold == self._nested.folds.get(box) else self._nested.folded(box, fold)
                if folded is not None:
                    width = max(size.width, size.width + folded.width - inside.width)
                    score = self._score(Size(width, size.height - (inside.height - folded.height)))
                    yield _Fold(box, fold, score + self._cost(box, fold))
