"""Colours for measured figures, kinds of operation and modules, light and dark.

Each ramp is a straight line in OKLCH, so its steps look equally far apart. Lightness changes in one direction, so
colour-blind users and grey print keep the order. One text colour is readable on every step, because an item that
represents several repetitions shows several steps at once. Tests check all three properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gradviz.graph.query.operation_kinds import OPERATION_KINDS, OperationKind

ColorBy = Literal["kind", "gradient", "memory", "time", "module", "none"]
Quantity = Literal["gradient", "memory", "time"]
COLOR_BY: tuple[ColorBy, ...] = get_args(ColorBy)
STEPS = 7
CATEGORIES = 8
COLOURED_KINDS: tuple[OperationKind, ...] = OPERATION_KINDS[:CATEGORIES]
"""The kinds of operation with a colour of their own; elementwise operations and changes of shape are plain."""


@dataclass(frozen=True)
class Ink:
    """The three colours of one kind of item."""

    fill: str
    line: str
    text: str


@dataclass(frozen=True)
class Tints:
    """The tints of one theme."""

    ramps: dict[Quantity, tuple[Ink, ...]]
    """From the smallest to the largest figure."""
    categories: tuple[Ink, ...]
    """For modules, which have no order."""
    kinds: tuple[Ink, ...]
    """For `COLOURED_KINDS`: hues of about equal weight that users with any one colour blindness tell apart."""
    others: Ink
    """For the modules that have no colour of their own."""
    plain: Ink
    """For items without a figure, or with a figure of zero."""
    unknown: Ink
    """For items that were not measured; drawn dashed."""


def _inks(text: str, *pairs: str) -> tuple[Ink, ...]:
    """From ``#fill #line``."""
    return tuple(Ink(fill, line, text) for fill, line in map(str.split, pairs))


_LIGHT_TEXT = "#111827"
LIGHT_TINTS = Tints(
    ramps={
        "gradient": _inks(
            _LIGHT_TEXT,
            "#fcfacb #8f8940",
            "#d6f0bd #6b8b46",
            "#a8e5bc #388b5b",
            "#76d8c6 #078474",
            "#49c7d4 #007983",
            "#3cb0e0 #016e92",
            "#5594e3 #285e9f",
        ),
        "memory": _inks(
            _LIGHT_TEXT,
            "#fdf1fb #9f779b",
            "#f2dbf3 #996e9b",
            "#e6c7ed #92659c",
            "#d7b3e8 #8a5c9e",
            "#c79fe5 #80559e",
            "#b58ce2 #74509a",
            "#a17adf #694b96",
        ),
        "time": _inks(
            _LIGHT_TEXT,
            "#fff6e4 #9c834d",
            "#fae3c1 #9d783b",
            "#f5cfa2 #9e6d28",
            "#f2ba84 #9f6112",
            "#efa468 #9d560e",
            "#eb8c4f #984d14",
            "#e67339 #934319",
        ),
    },
    categories=_inks(
        _LIGHT_TEXT,
        "#a9d7ff #2971a7",
        "#d0a260 #906106",
        "#a1e4ae #347d48",
        "#c796d2 #885593",
        "#79e5eb #017b80",
        "#aeb164 #707110",
        "#d9c6fe #765ca2",
        "#e39191 #a24f51",
    ),
    kinds=_inks(
        _LIGHT_TEXT,
        "#f8e7ba #89722f",
        "#bae3ff #3b7ca3",
        "#d1f2dc #44845e",
        "#ffc8c0 #a35f57",
        "#c8c7f3 #6f6ca7",
        "#bdf8fc #18848b",
        "#d5cf9e #807632",
        "#ead1e2 #975f86",
    ),
    others=Ink("#dfe3ea", "#7c8798", _LIGHT_TEXT),
    plain=Ink("#ffffff", "#8290a8", "#1d2433"),
    unknown=Ink("#f5f6f8", "#98a2b3", "#4a5366"),
)
_DARK_TEXT = "#f4f7fc"
DARK_TINTS = Tints(
    ramps={
        "gradient": _inks(
            _DARK_TEXT,
            "#252437 #6d6b9f",
            "#2b2f4a #6d76b0",
            "#2e3c5f #6a83c1",
            "#2d4972 #6591d0",
            "#265886 #5c9fdd",
            "#116997 #53ade6",
            "#0779a0 #4ebceb",
        ),
        "memory": _inks(
            _DARK_TEXT,
            "#262530 #716a99",
            "#332e47 #7d71aa",
            "#42355e #8b78bb",
            "#533d76 #9a7ecc",
            "#65438d #a986d6",
            "#7a49a4 #b78fde",
            "#904eba #c598e7",
        ),
        "time": _inks(
            _DARK_TEXT,
            "#2d251c #8d6a41",
            "#3f2e1d #9d7144",
            "#53371d #ae7847",
            "#693f1d #bf7e4b",
            "#7f471f #d18451",
            "#964e22 #e08c5d",
            "#ae5528 #ed946c",
        ),
    },
    categories=_inks(
        _DARK_TEXT,
        "#013658 #599fd8",
        "#694914 #c08e43",
        "#093e1b #63ab74",
        "#63416b #b681c2",
        "#013b3e #20acb3",
        "#535318 #9c9e48",
        "#392855 #a388d2",
        "#763c3d #d47b7c",
    ),
    kinds=_inks(
        _DARK_TEXT,
        "#392e09 #b29d5a",
        "#0c3245 #63a8cf",
        "#1f5643 #62b194",
        "#50352b #cf8c72",
        "#43436c #9698d5",
        "#174349 #50aebb",
        "#534a1d #ad9f5b",
        "#491d2e #cc879e",
    ),
    others=Ink("#39404d", "#8a94a6", _DARK_TEXT),
    plain=Ink("#1b202b", "#6c778c", "#dfe5ef"),
    unknown=Ink("#1b202b", "#6c778c", "#aeb8c8"),
)
