"""Findings that existed before."""

from __future__ import annotations

import pytest

from gradviz.analysis.check.baseline import baseline_of, read_baseline, without_known
from gradviz.analysis.finding import Finding, Location
from gradviz.errors import BadInput

ODD = "tr\udce4in.py"


def test_a_finding_in_a_file_whose_name_is_not_utf8_is_recognised_again() -> None:
    finding = Finding(
        code="GV101", cause="detached", severity="error", message="w", location=Location(ODD, 3), tensors=("w\udce4",)
    )
    source = {ODD: {3: "h = '\udce4'"}}
    baseline = read_baseline(baseline_of(ODD, [finding], source), "known.json", ODD)
    assert without_known(baseline, [finding], source) == ([], [finding])


def test_a_baseline_fits_its_program_from_whatever_folder_it_is_run() -> None:
    content = baseline_of("src/train.py", (), {})
    for name in ("train.py", "../work/src/train.py", "src\\train.py"):
        assert read_baseline(content, "known.json", name).findings == ()
    with pytest.raises(BadInput, match=r"of src/train.py, not of old/train.py"):
        read_baseline(content, "known.json", "old/train.py")
