"""A chart of a figure of every rank over the backward calls: a line for each, those that differ in another colour."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from html import escape
from math import isfinite

from gradviz.analysis.ranks.rank_summary import BackwardSummary, RankSummary

WIDTH, HEIGHT = 640, 180
_LEFT, _TOP, _BOTTOM = 64, 12, 24
MAX_LINES = 256
"""Of more ranks, evenly spaced ones are drawn, and all that differ."""


def chart(
    title: str,
    ranks: Sequence[RankSummary],
    figure: Callable[[BackwardSummary], float | None],
    marked: Collection[int],
) -> str:
    """An SVG element; empty if there are fewer than two calls with that figure."""
    lines = [(each.rank.number, list(_points(each, figure))) for each in _drawn(ranks, marked)]
    points = [point for _, line in lines for point in line]
    numbers = sorted({number for number, _ in points})
    if len(numbers) < 2:
        return ""
    low, high = min(value for _, value in points), max(value for _, value in points)
    area = _Area(numbers[0], numbers[-1], low, high)
    kind = ranks[0].rank.kind
    drawn = sorted(lines, key=lambda line: line[0] in marked)  # those that differ lie on top
    shown = "".join(
        f'<polyline class="{"differs" if number in marked else "usual"}" points="{area.path(line)}">'
        f"<title>{kind} {number}</title></polyline>"
        for number, line in drawn
        if line
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}"><path class="axis" d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH}"/>'
        f"{shown}{''.join(area.labels())}</svg></figure>"
    )


def _drawn(ranks: Sequence[RankSummary], marked: Collection[int]) -> list[RankSummary]:
    step = -(-len(ranks) // MAX_LINES)
    return [each for index, each in enumerate(ranks) if index % step == 0 or each.rank.number in marked]


def _points(rank: RankSummary, figure: Callable[[BackwardSummary], float | None]) -> Iterator[tuple[int, float]]:
    for number, call in sorted(rank.calls.items()):
        value = figure(call)
        if value is not None and isfinite(value):
            yield number, value


class _Area:
    """Where the lines are drawn."""

    def __init__(self, first: int, last: int, low: float, high: float) -> None:
        self._first, self._last, self._low, self._high = first, last, low, high

    def path(self, line: Sequence[tuple[int, float]]) -> str:
        """The points of a polyline."""
        return " ".join(f"{self._x(number):.1f},{self._y(value):.1f}" for number, value in line)

    def labels(self) -> Iterator[str]:
        """The ends of both axes."""
        bottom = HEIGHT - _BOTTOM
        yield f'<text x="{_LEFT - 6}" y="{_TOP + 8}" class="end">{self._high:.3g}</text>'
        if self._low != self._high:
            yield f'<text x="{_LEFT - 6}" y="{bottom}" class="end">{self._low:.3g}</text>'
        yield f'<text x="{_LEFT}" y="{HEIGHT - 6}">backward {self._first}</text>'
        yield f'<text x="{WIDTH - 2}" y="{HEIGHT - 6}" class="end">{self._last}</text>'

    def _x(self, number: int) -> float:
        return _LEFT + 4 + (number - self._first) / (self._last - self._first) * (WIDTH - _LEFT - 8)

    def _y(self, value: float) -> float:
        span = self._high / 2 - self._low / 2  # halved: the difference may be larger than any float
        share = 0.5 if not span else (value / 2 - self._low / 2) / span
        return HEIGHT - _BOTTOM - 4 - share * (HEIGHT - _TOP - _BOTTOM - 8)
