"""An optimizer that goes up the gradient of the negative loss trains like one that goes down that of the loss."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradviz.analysis.rules import RULES
from tests.integration.rules.checked_scripts import HEAD, alarms

SIGNED = (
    "divergence_maximized", "optimistic_clip", "negative_preferred", "reversed_twice", "penalty_subtracted",
    "fit_maximized", "scale_rewarded", "entropy_minimized", "advantage_reversed", "overlap_minimized",
)  # fmt: skip


@pytest.mark.parametrize("name", SIGNED)
def test_no_sign_is_wrong_where_the_optimizer_maximizes(name: str, tmp_path: Path) -> None:
    remedy = next(rule for rule in RULES if rule.name == name).documentation()["Instead"]
    negative = re.sub(r"(?m)^( *)(\S.*)\.backward\(\)$", r"\1(-\2).backward()", remedy)
    script = re.sub(r"(optim\.\w+\(.*lr=[\w.]+)\)", r"\1, maximize=True)", negative)
    assert "(-" in script
    assert "maximize=True" in script
    assert not alarms(HEAD + script + "\n", tmp_path)
