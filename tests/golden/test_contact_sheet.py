"""No picture of the contact sheet has a flaw that one can point at, and each fits a page or a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.rendering.svg.svg import SvgRenderer
from tests.golden.contact_sheet.sheet import SHEET, recorded
from tests.unit.rendering.layout.flaws import measured

MAX_RATIO = 2.05
MAX_BLANK = 0.72
"""Of a picture with its title, legend and notes: most items stand in columns, with room for wires and titles beside."""


@pytest.mark.parametrize("program", SHEET, ids=lambda program: program.stem)
def test_no_wire_crosses_words_or_boxes_and_the_sides_are_within_one_to_two(program: Path, tmp_path: Path) -> None:
    subject = recorded(program, tmp_path)
    figures = measured(SvgRenderer().lay_out(subject))
    assert figures.crossings == ()
    assert figures.missing_labels == 0
    assert figures.steps == 0
    assert figures.blank < MAX_BLANK
    assert figures.ratio < MAX_RATIO
    assert measured(SvgRenderer(direction="LR", shape="page").lay_out(subject)).crossings == ()
