"""The answers of ``--why`` for a parameter or a variable: each verdict with another program."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.check.why import Answer, why
from gradviz.analysis.parameters.parameter_outcomes import counted_outcomes
from gradviz.analysis.rules import RULES
from gradviz.errors import BadInput
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run

BEGINNING = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(5, 3)
"""
END = """
optimizer.step()
"""


def case_of(middle: str, folder: Path) -> Case:
    script = folder / "train.py"
    script.write_text(BEGINNING + dedent(middle).strip("\n") + END)
    plan = RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
    return Case(run(find_script(str(script)), (), plan).capture)


def answer(name: str, middle: str, folder: Path) -> Answer:
    case = case_of(middle, folder)
    return why(case, check_case(case, RULES).findings, name)


VERDICTS = {
    "gets one": (
        "0.weight", "net(x).sum().backward()",
        "gradient", "gets a gradient, of norm ", None,
    ),
    "gets one, and nothing trains it": (
        "scale", "scale = nn.Parameter(torch.ones(2))\n(net(x) * scale).sum().backward()",
        "gradient", "; but it is in no optimizer, and nothing else changes it", None,
    ),
    "gets zeros": (
        "0.weight", "h = net[0](x) - 100\nnet[1](h.relu()).sum().backward()",
        "zero", "gets a gradient that is exactly zero: ReluBackward0 made it zero", 8,
    ),
    "gets NaN": (
        "1.bias", "(net(x) * 0).sqrt().sum().backward()",
        "not finite", "gets a gradient with 2 NaN and 0 Inf in 2 numbers", None,
    ),
    "is cut off": (
        "0.weight", "h = net[0](x)\nnet[1](h.detach()).sum().backward()",
        "cut off", "gets no gradient: the path from the loss is cut", 8,
    ),
    "is unused": (
        "spare.weight", "net.spare = nn.Linear(3, 3)\nnet[1](net[0](x)).sum().backward()",
        "unused", "gets no gradient: nothing is ever computed from it", 7,
    ),
    "is frozen": (
        "0.weight", "net[0].requires_grad_(False)\nnet(x).sum().backward()",
        "frozen", "gets no gradient: it does not require grad", 7,
    ),
    "is used for something else": (
        "extra.weight", "net.extra = nn.Linear(4, 1)\nh = net[0](x)\nnote = net.extra(h)\nnet[1](h).sum().backward()",
        "not reached", "gets no gradient: it is used, but no loss that backward ran on", 9,
    ),
    "waits for a backward": (
        "0.weight", "loss = net(x).sum()",
        "not reached", "gets no gradient: no backward() ran", 7,
    ),
    "hands it on": (
        "h", "h = net[0](x)\nloss = net[1](h).sum()\nloss.backward()",
        "passed on", "is computed, and its .grad stays None", 7,
    ),
    "was computed from what was cut": (
        "best", "out = net(x)\nout.sum().backward()\nbest = out.argmax(1) + 1",
        "cut off", "does not require grad: the path of the gradient is cut above it", 9,
    ),
    "is data": ("x", "net(x).sum().backward()", "no grad", "does not require grad", 6),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_comes_with_the_line_that_causes_it(name: str, tmp_path: Path) -> None:
    asked, middle, kind, words, line = VERDICTS[name]
    told = answer(asked, middle, tmp_path)
    assert (told.kind, words in told.verdict) == (kind, True), told.verdict
    assert (told.location and told.location.line) == line


def test_the_figures_are_those_of_the_last_backward_that_reached_the_tensor(tmp_path: Path) -> None:
    told = answer("0.weight", "net(x).sum().backward()\nnet[1](torch.ones(2, 4)).sum().backward()", tmp_path)
    assert told.verdict.startswith("gets a gradient, of norm ")
    assert dict(told.facts)["path"] == "Sum > Addmm > Addmm > T > net.0.weight"


def test_the_missing_path_of_a_tensor_that_was_cut_off_is_shown(tmp_path: Path) -> None:
    told = answer("0.bias", "loss = net[1](net[0](x).detach()).sum()\nloss.backward()", tmp_path)
    assert dict(told.facts)["path"] == "net.0.bias > cut: detach (line 7) > linear (line 7) > sum (line 7) > loss"


def test_a_module_is_answered_with_its_parameters(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'net\.0' means several; write one of net\.0\.weight"):
        answer("net.0", "net(x).sum().backward()", tmp_path)


def test_a_name_that_nothing_has_is_answered_with_one_name_for_each_parameter(tmp_path: Path) -> None:
    case = case_of("net(x).sum().backward()", tmp_path)
    log = case.dataflow.log
    tensors = tuple(
        replace(each, names=(*each.names, *(f"trainer.{name}" for name in each.names))) for each in log.tensors
    )
    case = Case(replace(case.capture, calls=replace(log, tensors=tensors)))
    with pytest.raises(BadInput, match=r"choose from net\.0\.weight, net\.0\.bias, net\.1\.weight, net\.1\.bias"):
        why(case, (), "nowhere")
    with pytest.raises(BadInput, match=r"did you mean 'trainer\.net\.1\.weight'"):
        why(case, (), "trainer.net.1.wieght")


def test_a_model_that_is_made_again_after_training_does_not_hide_the_trained_one(tmp_path: Path) -> None:
    middle = """
        net(x).sum().backward()
        optimizer.step()
        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        net(x)
    """
    found = answer("net.0.weight", middle, tmp_path)
    assert found.kind == "gradient"
    assert str(dict(found.facts)["optimizer"]).startswith("SGD")
    assert counted_outcomes(case_of(middle, tmp_path)) == "4 parameters, all reached"
