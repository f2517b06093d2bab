"""The part of the page's style that the still picture has too: font, outlines, and the colours of both themes."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.rendering.look.color_by import STATE_CATEGORIES, ink_of
from gradviz.rendering.look.color_ramps import CATEGORIES, STEPS
from gradviz.rendering.look.palette import THEMES, Theme
from gradviz.rendering.notebook import confined
from gradviz.rendering.page.color_categories import PAGE_CATEGORIES
from gradviz.rendering.page.items import QUANTITIES
from gradviz.rendering.svg.style import (
    SHAPE_RULES,
    colour_rules,
    cut_rules,
    flag_rules,
    font_faces,
    link_state_rules,
    link_widths,
    state_outlines,
    tint_rule,
)

OWN_OUTLINE = ">.s"
"""The outline of an item, but not of the bands inside it, which have other tints."""


def colours_and_shapes() -> str:
    """A style sheet for pages whose root has ``data-theme``, and whose picture has ``data-color``."""
    parts = [font_faces(), SHAPE_RULES]
    for name, theme in THEMES.items():
        holder = f'[data-theme="{name}"]'
        parts.append(f"{holder}{{{_variables(theme)}color-scheme:{name}}}\n")
        parts.append(confined(colour_rules(theme, [cut_rules, flag_rules, link_state_rules, _tint_rules]), holder))
    return "".join(parts)


def _variables(theme: Theme) -> str:
    """Colours of the parts around the picture."""
    named = {
        "page": theme.page,
        "text": theme.text,
        "quiet": theme.quiet_text,
        "link": theme.link,
        "faint": theme.quiet_link,
        "ground": theme.nested[0],
        "raised": theme.nested[1],
        "line": theme.nested[3],
        "accent": theme.roles["parameter"].line,
        "accent-fill": theme.roles["parameter"].fill,
        "failed": theme.failed.line,
        "failed-fill": theme.failed.fill,
        "warning": theme.flags["warning"].fill,
    }
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


def _tint_rules(theme: Theme) -> Iterator[str]:
    yield from link_widths("[data-weighed] ")
    for by in QUANTITIES:
        for tint in (*(f"step{step}" for step in range(STEPS)), "plain", "unknown", "broken"):
            yield tint_rule(tint, ink_of(tint, by, theme), f'[data-color="{by}"] ', OWN_OUTLINE)
    others = ",".join(f"[data-color={by}]" for by in PAGE_CATEGORIES if by not in ("kind", "state"))
    for tint in (*(f"category{index}" for index in range(CATEGORIES)), "others", "plain", "broken"):
        yield tint_rule(tint, ink_of(tint, "module", theme), f":is({others}) ", OWN_OUTLINE)
    for index in range(CATEGORIES):
        tint = f"category{index}"
        yield tint_rule(tint, ink_of(tint, "kind", theme), "[data-color=kind] ", OWN_OUTLINE)
    for tint, _ in STATE_CATEGORIES:
        yield tint_rule(tint, ink_of(tint, "state", theme), "[data-color=state] ", OWN_OUTLINE)
    yield from state_outlines("[data-color=state] ", OWN_OUTLINE)
