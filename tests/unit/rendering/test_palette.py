"""Every role is readable and tells itself apart without colour."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import pytest

from gradviz.graph.model import NodeKind
from gradviz.rendering.palette import ROLE_STYLES, THEMES, Role, ThemeName


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_text_has_the_contrast_that_wcag_asks_for(name: ThemeName) -> None:
    theme = THEMES[name]
    pairs = [(ink.text, ink.fill) for ink in (*theme.roles.values(), theme.failed)]
    pairs += [(theme.text, fill) for fill in (theme.page, *theme.nested)]
    pairs += [(theme.quiet_text, fill) for fill in (theme.page, *theme.nested)]
    pairs += [(theme.quiet_text, theme.roles[role].fill) for role in ("operation", "view", "box")]
    pairs += [(theme.page, theme.failed.line), (theme.failed.line, theme.page)]
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == []


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_outline_stands_out_from_the_page(name: ThemeName) -> None:
    theme = THEMES[name]
    faint = [role for role, ink in theme.roles.items() if contrast(ink.line, theme.page) < 2.5]
    assert faint == []


def test_every_kind_of_node_has_a_role() -> None:
    assert set(get_args(NodeKind)) <= set(ROLE_STYLES)


def test_roles_of_operations_differ_in_shape_and_not_only_in_colour() -> None:
    kinds: tuple[Role, ...] = ("operation", "view", "custom", "inplace", "checkpoint", "compiled", "parameter", "input")
    alike = [(a, b) for a, b in combinations(kinds, 2) if ROLE_STYLES[a].shape == ROLE_STYLES[b].shape]
    assert alike == []
