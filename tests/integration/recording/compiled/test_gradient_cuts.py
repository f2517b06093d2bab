"""Where compiled code cuts off a gradient, ``check`` names the line and the parameters, as in uncompiled code."""

# Much of torch has no types.
# mypy: allow-untyped-calls, allow-untyped-defs, disallow-any-decorated=false
from __future__ import annotations

import warnings

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.compiled.compiled_functions import compiled_document, compiled_functions
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from gradviz.rendering.reports.compiled_text import CompiledText

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(4, 4, bias=False) for _ in range(5)]
        self.used, self.off, self.cut, self.compared, self.lost = layers

    @torch.no_grad()  # switched off
    def scale(self, x):
        return self.off(x)  # off

    def forward(self, x):
        unused = self.lost(x)
        mask = self.compared(x) > 0  # compared
        return self.used(x) * self.scale(x) * self.cut(x).detach() * mask  # cut

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
net = torch.compile(model, backend="eager")
for _ in range(2):
    optimizer.zero_grad()
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.split("\n"), start=1) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """What was recorded of the program, after it was written and read."""
    script = tmp_path_factory.mktemp("compiled") / "train.py"
    script.write_text(PROGRAM)
    plan = RecordingPlan(backward=None, keep_going=True, calls=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = run(find_script(str(script)), (), plan)
    assert recorded.capture.error is None, recorded.capture.error
    return read_capture(write_capture(recorded.capture), "run.gradviz")


def test_each_cut_has_its_line_and_its_parameters(capture: Capture) -> None:
    (function,) = compiled_functions(capture)
    assert {cut.parameters: (cut.line, cut.is_grad_off) for cut in function.cuts} == {
        ("net.off.weight",): (line_of("off"), True),
        ("net.cut.weight",): (line_of("cut"), False),
        ("net.compared.weight",): (line_of("compared"), False),
        ("net.lost.weight",): (0, False),
    }


def test_check_reports_each_at_its_line(capture: Capture) -> None:
    found = {
        name.partition(".")[2]: (finding.code, finding.location.line if finding.location is not None else 0)
        for finding in check_case(Case(capture), RULES).findings
        for name in finding.tensors
    }
    assert found == {
        "off.weight": ("GV102", line_of("switched off")),
        "cut.weight": ("GV101", line_of("cut")),
        "compared.weight": ("GV107", line_of("compared")),
        "lost.weight": ("GV704", line_of("compared")),  # as without compilation: the last line that it led to
    }


def test_the_list_of_what_was_compiled_has_the_cuts(capture: Capture) -> None:
    printed = CompiledText(120).text(compiled_document(capture))
    assert f"gradient cut at train.py:{line_of('cut')}" in printed
    assert "torch.Tensor.detach(): none for net.cut.weight" in printed
    assert "gradients are off: none for net.off.weight" in printed
