"""Cells of a heat map: rows of series, columns of steps, one path for all cells of a shade.

A row without changes costs one rectangle, not one for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, isnan, log10
from statistics import median

from gradviz.analysis.flow.flow_over_steps import Series
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.shapes import number
from gradviz.rendering.svg.heat_colours import LEVELS

MAX_COLUMNS = 240
"""More steps than this share columns."""
_MAX_DECADES = 12
MIN_ZEROS = 0.01
"""A smaller share of zeros is chance, and is not drawn."""
_GAP = 1.0


@dataclass(frozen=True)
class LogScale:
    """Powers of ten from 10**low to 10**high. A value outside has the shade of the nearer end."""

    low: int
    high: int

    @classmethod
    def of(cls, values: Sequence[float]) -> LogScale:
        """A scale for all positive values, or for the upper part of them if they span too many decades."""
        logs = [log10(value) for value in values if value > 0]
        low, high = floor(min(logs, default=0.0)), floor(max(logs, default=0.0)) + 1
        return cls(max(low, high - _MAX_DECADES), high)

    def part(self, value: float) -> float:
        """The position of a positive value on the scale, from 0 to 1."""
        return min(max((log10(value) - self.low) / (self.high - self.low), 0.0), 1.0)


@dataclass(frozen=True)
class Columns:
    """Which measured steps share a column."""

    starts: tuple[int, ...]
    """The index of the first step of each column, and of the end."""

    @classmethod
    def of(cls, steps: int, most: int = MAX_COLUMNS) -> Columns:
        count = max(min(steps, most), 1)
        return cls(tuple(column * steps // count for column in range(count + 1)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def spans(self) -> Iterator[slice]:
        """The steps of each column."""
        for start, end in zip(self.starts, self.starts[1:], strict=False):
            yield slice(start, end)


def typical(values: Sequence[float]) -> float:
    """The median of the known values; NaN if there are none."""
    known = [value for value in values if not isnan(value)]
    return median(known) if known else float("nan")


def size_classes(series: Series, columns: Columns, scale: LogScale) -> list[str]:
    """The class of each cell: a shade, ``bad``, ``dead``, or empty if no gradient arrived."""
    classes = []
    for span in columns.spans():
        size = typical(series.sizes[span])
        if any(series.broken[span]):
            classes.append("bad")
        elif isnan(size):
            classes.append("")
        else:
            classes.append("dead" if size == 0 else f"s{_level(scale.part(size))}")
    return classes


def zero_classes(series: Series, columns: Columns) -> list[str]:
    """The class of each cell: a shade for the share of zeros, or empty if there are none or few."""
    shares = (typical(series.zeros[span]) for span in columns.spans())
    return ["" if isnan(share) or share < MIN_ZEROS else f"z{_level(share)}" for share in shares]


def cells(rows: Sequence[Sequence[str]], area: Rect) -> Iterator[str]:
    """Paths that fill `area` with the rows' cells."""
    paths: dict[str, list[str]] = {}
    height = area.height / max(len(rows), 1)
    for row_nr, classes in enumerate(rows):
        width = area.width / len(classes)
        column = 0
        for css_class, alike in groupby(classes):
            length = len(list(alike))
            cell = Rect(area.x + column * width, area.y + row_nr * height, length * width, height - _GAP)
            if css_class:
                paths.setdefault(css_class, []).append(_DRAWN.get(css_class, _filled)(cell))
            column += length
    yield from (f'<path class="{css_class}" d="{"".join(paths[css_class])}"/>\n' for css_class in sorted(paths))


def _level(part: float) -> int:
    return min(int(part * LEVELS), LEVELS - 1)


def _filled(cell: Rect) -> str:
    # From the rounded right edge of the cell before, so that no gap between them is visible.
    x, right = number(cell.x), number(cell.right)
    return f"M{x} {number(cell.y)}H{right}v{number(cell.height)}H{x}z"


def _flat_line(cell: Rect) -> str:
    return f"M{number(cell.x)} {number(cell.center.y)}H{number(cell.right)}"


_DRAWN: dict[str, Callable[[Rect], str]] = {"dead": _flat_line}
