"""Colours of heat maps: from nearly the colour of the page to a strong contrast with it, in both themes.

So a gradient that vanishes also fades on the picture. The ramps use the palette's hues of parameters (for sizes) and of
in-position operations (for zeros).
"""

from __future__ import annotations

from gradviz.rendering.look.palette import THEMES, ThemeName
from gradviz.rendering.svg.style import ThemeChoice

LEVELS = 12
"""Shades of one ramp: more could not be distinguished."""

_SIZES: dict[ThemeName, tuple[str, ...]] = {
    "light": ("#eef4fb", "#c3dbf3", "#84b5e3", "#3f83c4", "#1b4f87", "#0a2444"),
    "dark": ("#1a2534", "#1f4064", "#2a6ba6", "#5ba3e0", "#a5cff3", "#eaf4fd"),
}
_ZEROS: dict[ThemeName, tuple[str, ...]] = {
    "light": ("#fdf3ec", "#fbd3bb", "#ef9a68", "#c2571d", "#8a3a10", "#4f1e05"),
    "dark": ("#2a211c", "#56331f", "#8f4f28", "#e08a55", "#f5bd97", "#fde9dc"),
}

_SHAPES = """
.g,.u,.dead,.hit{fill:none}
.g{stroke-width:.6}
.u{stroke-width:1.6;stroke-linejoin:round}
.dead{stroke-width:1.4}
.faint{opacity:.25}
.hit{pointer-events:all}
.hit:hover{stroke-width:1}
"""


def chart_style(theme: ThemeChoice) -> str:
    """Rules for the classes ``s0`` ... (sizes), ``z0`` ... (zeros), and the other parts of a chart."""
    parts = [_SHAPES, _colours("dark" if theme == "dark" else "light")]
    if theme == "auto":
        parts.append(f"@media (prefers-color-scheme:dark){{{_colours('dark')}}}\n")
    return "".join(parts)


def _colours(name: ThemeName) -> str:
    theme = THEMES[name]
    rules = [f".s{level}{{fill:{shade}}}" for level, shade in enumerate(_ramp(_SIZES[name]))]
    rules += [f".z{level}{{fill:{shade}}}" for level, shade in enumerate(_ramp(_ZEROS[name]))]
    rules += [
        f".bad{{fill:{theme.failed.line}}}",
        f".dead{{stroke:{theme.roles['inplace'].line}}}",
        f".bed{{fill:{theme.nested[0]}}}",
        f".g{{stroke:{theme.quiet_link}}}",
        f".u{{stroke:{theme.roles['parameter'].line}}}",
        f".hit:hover{{stroke:{theme.link}}}",
    ]
    return "".join(rules) + "\n"


def _ramp(stops: tuple[str, ...]) -> list[str]:
    return [_between(stops, level / (LEVELS - 1) * (len(stops) - 1)) for level in range(LEVELS)]


def _between(stops: tuple[str, ...], position: float) -> str:
    index = min(int(position), len(stops) - 2)
    share = position - index
    left, right = (bytes.fromhex(stop[1:]) for stop in stops[index : index + 2])
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(left, right, strict=True))
