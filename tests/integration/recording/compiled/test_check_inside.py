"""``check`` finds inside compiled code what it finds without compilation, at the same lines."""

# Much of torch has no types.
# mypy: allow-untyped-calls, allow-untyped-defs, disallow-any-decorated=false
from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from tests.shared_runs import SharedFolders

PROGRAM = """
import torch
from torch import nn

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient * ctx.saved_tensors[0]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        {setup}

    def forward(self, x):
        h = self.first(x)
        {body}
        return self.last(h)

torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
net = {compiled}
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(8, 4))
    loss = {loss}
    loss.backward()
    optimizer.step()
"""

FAULTS = {
    "healthy": ("", "h = Square.apply(h).relu()", ""),
    "detach": ("", "h = h.detach().relu()", "GV101"),
    "no_grad": ("", "with torch.no_grad(): h = h.relu()", "GV102"),
    "not differentiable": ("", "h = (h > 0).float()", "GV107"),
    "dead relu": ("nn.init.constant_(self.first.bias, -20.0)", "h = h.relu()", "GV202"),
    "saturated": ("nn.init.constant_(self.first.bias, 9.0)", "h = h.clamp(-5, 2)", "GV203"),
    "zero slope": ("", "h = h.round()", "GV201"),
    "nan in forward": ("", "h = h + torch.log(h.detach() * 0 - 1)", "GV301"),
    "nan in backward": ("", "h = h + (h - h).pow(2).sum().sqrt()", "GV301"),
    "masked nan": ("", "h = torch.where(h > 0, h.sqrt(), h)", "GV302"),
    "overflow": ("", "h = (h * 1e4).exp()", "GV303"),
}
OF_NUMBERS = {name for name, (_, _, code) in FAULTS.items() if code[:3] in ("GV2", "GV3")}

WAYS = {
    "plain": ("model", False),
    "compiled": ('torch.compile(model, backend="aot_eager")', False),
    "inside": ('torch.compile(model, backend="aot_eager")', True),
}


def capture_of(folder: Path, name: str, way: str) -> Capture:
    """What was recorded of one program in one way, after it was written and read."""
    setup, body, _ = FAULTS[name]
    compiled, inside = WAYS[way]
    script = folder / f"{way}.py"
    script.write_text(PROGRAM.format(setup=setup, body=body, compiled=compiled, loss="out.square().mean()"))
    plan = RecordingPlan(backward=None, keep_going=True, calls=True, inside=inside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = run(find_script(str(script)), (), plan)
    assert recorded.capture.error is None, recorded.capture.error
    return read_capture(write_capture(recorded.capture), "run.gradviz")


Found = dict[str, dict[str, Any]]


@pytest.fixture
def found(shared: SharedFolders) -> Found:
    """For each program, what is found in each way."""

    def fill(folder: Path) -> None:
        told: dict[str, dict[str, Any]] = {}
        for name in FAULTS:
            captures = {way: capture_of(folder, name, way) for way in WAYS}
            told[name] = {way: findings(capture) for way, capture in captures.items()}
            told[name]["disclosures"] = {way: capture.disclosures for way, capture in captures.items()}
        (folder / "found.json").write_text(json.dumps(told))

    result: Found = json.loads((shared.folder("check-inside-compiled", fill) / "found.json").read_text())
    return result


def findings(capture: Capture) -> list[list[Any]]:
    return [
        [
            finding.code,
            finding.location.line if finding.location is not None else 0,
            sorted(finding.tensors),
            finding.message.replace("compiled", ""),
        ]
        for finding in check_case(Case(capture), RULES).findings
    ]


@pytest.mark.parametrize("name", FAULTS)
def test_with_inside_the_findings_are_those_of_uncompiled_code(found: Found, name: str) -> None:
    assert {FAULTS[name][2]} - {""} <= {code for code, *_ in found[name]["plain"]}
    assert found[name]["inside"] == found[name]["plain"]


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - OF_NUMBERS))
def test_cuts_are_found_without_numbers(found: Found, name: str) -> None:
    assert found[name]["compiled"] == found[name]["plain"]


@pytest.mark.parametrize("name", sorted(OF_NUMBERS))
def test_without_inside_a_broken_gradient_is_no_clean_report(found: Found, name: str) -> None:
    """It tells the call of the compiled code at least, or where NaN began in its backward."""
    assert any(code[:3] == FAULTS[name][2][:3] for code, *_ in found[name]["compiled"])


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_told_which_rules_did_not_look_inside(found: Found, name: str) -> None:
    told = {way: " ".join(disclosures) for way, disclosures in found[name]["disclosures"].items()}
    assert "rules about zeros, NaN and Inf (GV2, GV3) saw there only what went in" in told["compiled"]
    assert "rules about" not in told["inside"]
    is_custom = "Square" in FAULTS[name][1]
    assert all(("backward fits forward in Square" in told[way]) == is_custom for way in ("compiled", "inside"))
    assert told["plain"] == ""


NUMBER = """
import torch
from torch import nn

torch.manual_seed(0)
model, extra = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *extra.parameters()], lr=0.1)

@torch.compile(backend="aot_eager")
def loss_of(x):
    loss = model(x).square().mean()
    return loss + 0.1 * extra(x).square().mean().item()

for _ in range(4):
    optimizer.zero_grad()
    loss_of(torch.randn(8, 4)).backward()
    optimizer.step()
"""


def test_a_number_taken_out_of_compiled_code_keeps_no_region_closed_and_is_named(tmp_path: Path) -> None:
    """Compiled code sends zeros to what it used for the number, which is a tensor there from the second step on."""
    script = tmp_path / "train.py"
    script.write_text(NUMBER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = run(find_script(str(script)), (), RecordingPlan(backward=None, keep_going=True, calls=True))
    capture = recorded.capture
    assert capture.error is None, capture.error
    assert [region.closed for graph in capture.graphs for region in graph.regions if region.closed] == []
    report = check_case(Case(capture), RULES)
    (cut,) = (each for each in report.findings if each.is_alarm)
    assert (cut.code, set(cut.tensors)) == ("GV106", {"extra.weight", "extra.bias"})
    assert cut.location is not None and ".item()" in NUMBER.split("\n")[cut.location.line - 1]
    assert not any("model" in each.message for each in report.findings if each.code == "GV902")
