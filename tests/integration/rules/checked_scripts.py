"""Scripts of a training with one mistake, on the line that ends with ``# HERE``; what begins and ends them, and what
``check`` finds in them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules import RULES
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run

HEAD = """
import copy
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
"""
TRAIN = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def alarms(script: str, folder: Path) -> list[Finding]:
    """The errors and warnings of a script."""
    return [finding for finding in findings(script, folder) if finding.is_alarm]


def findings(script: str, folder: Path) -> tuple[Finding, ...]:
    """The same with notes; no rule has failed."""
    found = check_case(recorded(script, folder), RULES).findings
    assert [each.message for each in found if each.cause == "failed_rule"] == []
    return found


def recorded(script: str, folder: Path) -> Case:
    """The run of a script, from its beginning to its end."""
    path = folder / "train.py"
    path.write_text(script)
    plan = RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
    with warnings.catch_warnings():
        # Torch 2.6 warns of how its own SequentialLR calls the next schedule.
        warnings.filterwarnings("ignore", "The epoch parameter in", UserWarning)
        return Case(run(find_script(str(path)), (), plan).capture)


def assert_first_alarm(script: str, cause: str, folder: Path) -> None:
    """The first alarm is this cause, at the marked line."""
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, folder)]
    assert found[:1] == [(cause, here)]


def in_files(files: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes modules into a folder of their own names; what a script has to say before it imports them."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return ""
