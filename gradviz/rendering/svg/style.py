"""The style sheet of an SVG: every colour of a theme as a rule, with the shipped font embedded.

Rules have colours and not CSS variables, because most programs that read SVG (Inkscape, resvg, office suites) do not
know variables. The dark theme of an "auto" picture is the same rules again in a media query.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from gradviz.rendering.layout.link_label_positions import LABEL_SIZE
from gradviz.rendering.look import node_label
from gradviz.rendering.look.color_by import Colouring, Tint, ink_of
from gradviz.rendering.look.color_ramps import Ink
from gradviz.rendering.look.geometry import Direction
from gradviz.rendering.look.link_looks import WIDTHS
from gradviz.rendering.look.palette import CUT_ROLES, LIGHT, ROLE_STYLES, THEMES, Theme
from gradviz.rendering.look.text_metrics import FONT_FAMILY, FONT_FOLDER

ThemeChoice = Literal["auto", "light", "dark"]

# Kerning and ligatures are off, so that a text is as wide as it was measured.
SHAPE_RULES = f"""
text{{font-family:"{FONT_FAMILY}",Inter,system-ui,sans-serif;font-kerning:none;font-variant-ligatures:none;
font-size:{node_label.SMALL_SIZE}px}}
.t{{font-size:{node_label.TITLE_SIZE}px;font-weight:700}}
.v{{font-size:{node_label.LEAF_TITLE_SIZE}px;font-weight:700}}
.t .q,.v .q{{font-size:{node_label.SMALL_SIZE}px;font-weight:400}}
.b{{font-size:{node_label.BADGE_SIZE}px;font-weight:700}}
.f .p{{font-size:15px;font-weight:700}}
.f .e{{font-weight:700}}
.s{{stroke-width:1.3}}
.i{{fill:none;stroke-width:1}}
.l{{fill:none;stroke-width:1.4}}
.constant .s{{stroke-dasharray:4 3}}
.carried .s{{stroke-dasharray:1.5 2}}
.l .k{{stroke-dasharray:4 3}}
.l .w{{stroke:none;stroke-width:9;pointer-events:stroke}}
.l g:hover path{{stroke-width:2.4}}
.box .s{{stroke-width:1.5}}
.o{{stroke-width:1}}
.failed .s,.o.failed{{stroke-width:3;stroke-dasharray:none}}
.x text{{font-size:{node_label.BADGE_SIZE}px;font-weight:700}}
.h .t{{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}}
.y{{font-size:{LABEL_SIZE}px;paint-order:stroke;stroke-width:3px;stroke-linejoin:round}}
.y text{{font-size:inherit}}
a:hover .s{{stroke-width:2.2}}
"""

_WITHOUT_FONT = f'text{{font-family:"{FONT_FAMILY}",Inter,Arial,"Liberation Sans",system-ui,sans-serif}}\n'
"""Replacement fonts that are no wider than ours, so that words stay within their outlines."""

More = Callable[[Theme], Iterable[str]]
"""Rules that only some pictures need."""


def style_sheet(theme: ThemeChoice, *, embed_font: bool, more: Sequence[More] = ()) -> str:
    """The content of the ``<style>`` element."""
    parts = [font_faces(), SHAPE_RULES] if embed_font else [SHAPE_RULES, _WITHOUT_FONT]
    parts.append(colour_rules(THEMES["dark" if theme == "dark" else "light"], more))
    if theme == "auto":
        parts.append(f"@media (prefers-color-scheme:dark){{{colour_rules(THEMES['dark'], more)}}}\n")
    return "".join(parts)


def flag_rules(theme: Theme) -> Iterator[str]:
    """The flags for gradients and findings."""
    for level, ink in theme.flags.items():
        yield f".{level} .c{{fill:{ink.fill};stroke:{ink.line}}}.{level} .b{{fill:{ink.text}}}"


def cut_rules(theme: Theme) -> Iterator[str]:
    """Cuts, the tensors that get no gradient because of them, and the links between them."""
    for role in CUT_ROLES:
        yield f"{_ink(f'.{role}', theme.roles[role])}.{role} .s{{stroke-dasharray:4 3}}"
    yield f".l .ghost{{stroke:{theme.failed.line};stroke-dasharray:6 4}}.ag{{fill:{theme.failed.line}}}"


def shade(depth: int) -> str:
    """The class of an open box at a depth, and of words in its colour; deeper boxes repeat the last shade."""
    return f"d{min(depth, len(LIGHT.nested) - 1)}"


def font_faces() -> str:
    """The shipped font, inside the style sheet."""
    return "".join(
        f'@font-face{{font-family:"{FONT_FAMILY}";font-weight:{weight};'
        f"src:url(data:font/woff2;base64,{_encoded_font(name)}) format('woff2')}}\n"
        for name, weight in (("Regular", 400), ("Bold", 700))
    )


def _encoded_font(name: str) -> str:
    return b64encode((FONT_FOLDER / f"GradvizSans-{name}.woff2").read_bytes()).decode("ascii")


def colour_rules(theme: Theme, more: Sequence[More]) -> str:
    """The rules that differ between themes."""
    rules = [
        f".page{{fill:{theme.page}}}",
        f".f text{{fill:{theme.quiet_text}}}.f .p,.f .n{{fill:{theme.text}}}.f .e{{fill:{theme.failed.line}}}",
        f".l{{stroke:{theme.link}}}.l .k{{stroke:{theme.quiet_link}}}",
        f".a{{fill:{theme.link}}}.ak{{fill:{theme.quiet_link}}}",
        f".h text{{fill:{theme.text}}}.h .q{{fill:{theme.quiet_text}}}",
        f".y{{fill:{theme.quiet_text};stroke:{theme.page}}}",
    ]
    rules += [_ink(f".{role}", theme.roles[role]) for role in ROLE_STYLES if role not in CUT_ROLES]
    rules.append(f".operation .q,.view .q,.box .q{{fill:{theme.quiet_text}}}")
    box_line = theme.roles["box"].line
    for depth, fill in enumerate(theme.nested):
        rules.append(f".d{depth}{{fill:{fill};stroke:{box_line}}}.h .d{depth}{{fill:{theme.text};stroke:{fill}}}")
        rules.append(f".y .d{depth}{{fill:{theme.quiet_text};stroke:{fill}}}")
    rules.append(_ink(".failed", theme.failed))
    rules.append(f".o.failed{{stroke:{theme.failed.line}}}")
    rules.append(f".x path{{fill:{theme.failed.line}}}.x text{{fill:{theme.page}}}")
    rules += [rule for rules_of in more for rule in rules_of(theme)]
    return "\n".join(rules) + "\n"


def _ink(selector: str, ink: Ink) -> str:
    return (
        f"{selector} .s{{fill:{ink.fill};stroke:{ink.line}}}{selector} .i{{stroke:{ink.line}}}"
        f"{selector} text{{fill:{ink.text}}}{selector} .c{{fill:none;stroke:{ink.line}}}"
    )


# Tints and looks of links in SVG: their style rules, and the fills of items with several tints.


def tint_rules(colouring: Colouring, *, and_also: Iterable[Tint] = ()) -> More:
    """A rule for each tint that appears. They come after those of roles, and override them."""
    wanted = sorted(colouring.present.union(and_also))

    def rules(theme: Theme) -> Iterator[str]:
        for tint in wanted:
            yield tint_rule(tint, ink_of(tint, colouring.by, theme))
        yield ".unknown .s{stroke-dasharray:4 3}"
        if colouring.by == "state":
            yield from state_outlines()

    return rules


def state_outlines(within: str = "", outline: str = ".s") -> Iterator[str]:
    """Outlines of what differs between two runs, which tell the states apart without colours."""
    dashed = "stroke-width:2;stroke-dasharray:7 4"
    for tint, look in (("only_a", dashed), ("only_b", "stroke-width:3"), ("first", "stroke-width:4")):
        yield f"{within}.{tint} {outline}{{{look}}}"
    yield f"{within}.changed {outline},{within}.changed .i{{stroke-width:1.5}}"


def tint_rule(tint: Tint, ink: Ink, within: str = "", outline: str = ".s") -> str:
    """The rule of one tint, for elements inside those that the selector `within` matches."""
    own = f"{within}.{tint}"
    return (
        f"{own} {outline}{{fill:{ink.fill};stroke:{ink.line}}}{own} .i{{stroke:{ink.line}}}"
        f"{own} text,{own} .q{{fill:{ink.text}}}{own} .c{{fill:none;stroke:{ink.line}}}"
        f"{within}stop.{tint}{{stop-color:{ink.fill}}}"
    )


def link_rules(theme: Theme) -> Iterator[str]:
    """How links are drawn, depending on the gradient that flows back along them."""
    yield from link_state_rules(theme)
    yield from link_widths()


def link_state_rules(theme: Theme) -> Iterator[str]:
    """Links along which only zeros, or NaN and Inf, flow back."""
    yield f".l .lost{{stroke:{theme.quiet_link};stroke-width:1.2;stroke-dasharray:1.5 3}}"
    yield f".l .broken{{stroke:{theme.failed.line};stroke-width:2}}.ab{{fill:{theme.failed.line}}}"


def link_widths(within: str = "") -> Iterator[str]:
    """Widths of the other links by the size of the gradient, inside elements that the selector `within` matches."""
    for step, width in enumerate(WIDTHS):
        yield f"{within}.l .flow{step}{{stroke-width:{width}}}"


class Bands:
    """Fills for items that represent several repetitions: a band for each, in the order of the computation."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._names: dict[tuple[Tint, ...], str] = {}

    def style_for(self, tints: tuple[Tint, ...]) -> str:
        """The outline's attribute ``style``; empty if one tint fills it all."""
        if len(set(tints)) < 2:
            return ""
        name = self._names.setdefault(tints, f"bands{len(self._names)}")
        return f"fill:url(#{name})"

    def definitions(self) -> str:
        """The definitions that the fills refer to."""
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
