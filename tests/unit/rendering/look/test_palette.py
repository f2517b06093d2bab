"""Every role is readable and can be distinguished without colour."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import dist
from typing import get_args

import pytest

from gradviz.graph.model import NodeKind
from gradviz.rendering.look.color_ramps import CATEGORIES, STEPS, Ink
from gradviz.rendering.look.palette import ROLE_STYLES, THEMES, Role, Theme, ThemeName


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def oklab(colour: str) -> tuple[float, float, float]:
    """Björn Ottosson's colour space, in which distances are about as large as they look."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    r, g, b = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    long, middle, short = (
        (row[0] * r + row[1] * g + row[2] * b) ** (1 / 3)
        for row in (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    )
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_text_has_the_contrast_that_wcag_asks_for(name: ThemeName) -> None:
    theme = THEMES[name]
    pairs = [(ink.text, ink.fill) for ink in (*theme.roles.values(), theme.failed)]
    pairs += [(theme.text, fill) for fill in (theme.page, *theme.nested)]
    pairs += [(theme.quiet_text, fill) for fill in (theme.page, *theme.nested)]
    pairs += [(theme.quiet_text, theme.roles[role].fill) for role in ("operation", "view", "box")]
    pairs += [(theme.page, theme.failed.line), (theme.failed.line, theme.page)]
    pairs += [(ink.text, ink.fill) for ink in (*theme.flags.values(), *every_tint(theme))]
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == []


def every_tint(theme: Theme) -> list[Ink]:
    tints = theme.tints
    ramps = (ink for ramp in tints.ramps.values() for ink in ramp)
    return [*ramps, *tints.categories, *tints.kinds, tints.others, tints.plain, tints.unknown]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_steps_of_a_ramp_look_equally_far_apart_and_keep_their_order_without_colour(name: ThemeName) -> None:
    for ramp in THEMES[name].tints.ramps.values():
        assert len(ramp) == STEPS
        distances = [dist(oklab(one.fill), oklab(other.fill)) for one, other in pairwise(ramp)]
        assert max(distances) < 1.4 * min(distances)
        lightness = [oklab(ink.fill)[0] for ink in ramp]
        assert lightness == sorted(lightness, reverse=name == "light")
        assert min(abs(one - other) for one, other in pairwise(lightness)) > 0.03


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_colours_of_modules_can_be_distinguished(name: ThemeName) -> None:
    fills = [oklab(ink.fill) for ink in THEMES[name].tints.categories]
    assert len(fills) == CATEGORIES
    assert min(dist(one, other) for one, other in combinations(fills, 2)) > 0.04


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_outline_stands_out_from_the_page(name: ThemeName) -> None:
    theme = THEMES[name]
    faint = [role for role, ink in theme.roles.items() if contrast(ink.line, theme.page) < 2.5]
    assert faint == []
    assert [ink for ink in every_tint(theme) if contrast(ink.line, theme.page) < 2.5] == []


def test_every_kind_of_node_has_a_role() -> None:
    assert set(get_args(NodeKind)) <= set(ROLE_STYLES)


def test_roles_of_operations_differ_in_shape_and_not_only_in_colour() -> None:
    kinds: tuple[Role, ...] = ("operation", "view", "custom", "inplace", "checkpoint", "compiled", "parameter", "input")
    alike = [(a, b) for a, b in combinations(kinds, 2) if ROLE_STYLES[a].shape == ROLE_STYLES[b].shape]
    assert alike == []


_BLINDNESS = {
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What linear RGB becomes for a user without one kind of cone: Machado, Oliveira and Fernandes, 2009, severity 1."""


def seen(colour: str, blindness: str) -> str:
    """The colour as a user with this colour blindness sees it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    mixed = (sum(factor * value for factor, value in zip(row, linear, strict=True)) for row in _BLINDNESS[blindness])
    clipped = (min(max(value, 0.0), 1.0) for value in mixed)
    coded = (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055 for value in clipped)
    return "#" + "".join(f"{round(value * 255):02x}" for value in coded)


@pytest.mark.parametrize("blindness", _BLINDNESS)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_colours_of_kinds_can_be_told_apart_with_any_colour_blindness(name: ThemeName, blindness: str) -> None:
    fills = [oklab(seen(ink.fill, blindness)) for ink in THEMES[name].tints.kinds]
    assert len(fills) == CATEGORIES
    assert min(dist(one, other) for one, other in combinations(fills, 2)) > 0.04


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_colours_of_kinds_are_quiet_and_none_of_them_is_loud_beside_the_others(name: ThemeName) -> None:
    found = [oklab(ink.fill) for ink in THEMES[name].tints.kinds]
    assert max(dist((0, a, b), (0, 0, 0)) for _, a, b in found) < 0.08
    lightness = [light for light, _, _ in found]
    assert max(lightness) - min(lightness) < 0.12
