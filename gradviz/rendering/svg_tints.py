"""Tints and looks of links in SVG: their rules of style, and the fills of items that show several tints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from gradviz.rendering.colouring import Colouring, Tint, ink_of
from gradviz.rendering.geometry import Direction
from gradviz.rendering.link_looks import WIDTHS
from gradviz.rendering.palette import Theme
from gradviz.rendering.svg_style import More
from gradviz.rendering.tints import Ink


def tint_rules(colouring: Colouring, *, and_also: Iterable[Tint] = ()) -> More:
    """A rule for each tint that appears; they come after those of roles, and win."""
    wanted = sorted(colouring.present.union(and_also))

    def rules(theme: Theme) -> Iterator[str]:
        for tint in wanted:
            yield tint_rule(tint, ink_of(tint, colouring.by, theme))
        yield ".unknown .s{stroke-dasharray:4 3}"

    return rules


def tint_rule(tint: Tint, ink: Ink, within: str = "", outline: str = ".s") -> str:
    """The rule of one tint, for what lies in elements that the selector `within` fits."""
    own = f"{within}.{tint}"
    return (
        f"{own} {outline}{{fill:{ink.fill};stroke:{ink.line}}}{own} .i{{stroke:{ink.line}}}"
        f"{own} text,{own} .q{{fill:{ink.text}}}{own} .c{{fill:none;stroke:{ink.line}}}"
        f"{within}stop.{tint}{{stop-color:{ink.fill}}}"
    )


def link_rules(theme: Theme) -> Iterator[str]:
    """How links are drawn for what flows back along them."""
    yield from link_state_rules(theme)
    yield from link_widths()


def link_state_rules(theme: Theme) -> Iterator[str]:
    """Links along which nothing but zeros, or NaN and Inf flow back."""
    yield f".l .lost{{stroke:{theme.quiet_link};stroke-width:1.2;stroke-dasharray:1.5 3}}"
    yield f".l .broken{{stroke:{theme.failed.line};stroke-width:2}}.ab{{fill:{theme.failed.line}}}"


def link_widths(within: str = "") -> Iterator[str]:
    """Those of the others, by the size of the gradient; in elements that the selector `within` fits."""
    for step, width in enumerate(WIDTHS):
        yield f"{within}.l .flow{step}{{stroke-width:{width}}}"


class Bands:
    """Fills for items that stand for several: a band for each, in the order of the computation."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._names: dict[tuple[Tint, ...], str] = {}

    def style_for(self, tints: tuple[Tint, ...]) -> str:
        """What stands in the outline's attribute ``style``; nothing where one tint fills it all."""
        if len(set(tints)) < 2:
            return ""
        name = self._names.setdefault(tints, f"bands{len(self._names)}")
        return f"fill:url(#{name})"

    def definitions(self) -> str:
        """What the fills refer to."""
        end = 'x2="0" y2="1"' if self._direction == "TB" else 'x2="1" y2="0"'
        return "".join(
            f'<linearGradient id="{name}" x1="0" y1="0" {end}>{"".join(_stops(tints))}</linearGradient>'
            for tints, name in self._names.items()
        )


def _stops(tints: tuple[Tint, ...]) -> Iterator[str]:
    start = 0
    for tint, alike in groupby(tints):
        stop = start + len(list(alike))
        for edge in (start, stop):
            yield f'<stop offset="{edge / len(tints):.4g}" class="{tint}"/>'
        start = stop
