"""A page has the colours of all items that it may show, because users can unfold every box."""

from __future__ import annotations

import pytest

from gradviz.rendering.look.palette import ROLE_STYLES, THEMES
from gradviz.rendering.page.style import colours_and_shapes


@pytest.mark.parametrize("role", ROLE_STYLES)
def test_every_role_is_coloured_in_both_themes(role: str) -> None:
    style = colours_and_shapes()
    assert [name for name in THEMES if f'[data-theme="{name}"] .{role} .s{{fill:' not in style] == []


def test_the_chip_on_a_cut_keeps_the_colour_of_its_level() -> None:
    style = colours_and_shapes()
    assert style.index(".alarm .c{fill:") > style.index(".cut .c{fill:none")
