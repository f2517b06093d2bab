"""No run ends with "nothing wrong found" while a parameter in an optimizer never changes, or always gets zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.check.why import why
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_outcomes import counted_outcomes
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Capture
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from tests.integration.recording.child import forked_result
from tests.integration.rules.checked_scripts import assert_first_alarm

LOOP = """
import torch
from torch import nn
torch.manual_seed(0)
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr={rate})
for step in range({steps}):
    optimizer.zero_grad()
    {loss}.backward()
    {after}
"""
PLAIN = {
    "model": "nn.Linear(4, 1)",
    "rate": "0.1",
    "steps": "4",
    "loss": "model(torch.randn(5, 4)).square().mean()",
    "after": "optimizer.step()",
}
SHORT_LOSS = PLAIN["loss"].replace("4)", "4).bfloat16()")
WEIGHTS = {"model.weight", "model.bias"}
RESTORED = "optimizer.step(); model.load_state_dict(dict(weight=torch.ones(1, 4), bias=torch.ones(1)))"

STEP_BEFORE_BACKWARD = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    loss = model(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    optimizer.step()
    loss.backward()
"""


SPARSE = """
import torch
weight = torch.nn.Parameter(torch.eye(3).to_sparse())
optimizer = torch.optim.SGD([weight], lr=0.1)
torch.sparse.mm(weight, torch.ones(3, 2)).sum().backward()
optimizer.step()
"""


def recorded(script: str, folder: Path) -> Capture:
    path = folder / "train.py"
    path.write_text(script)
    return run(
        find_script(str(path)), (), RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
    ).capture


def findings(script: str, folder: Path) -> list[Finding]:
    return list(check_case(Case(recorded(script, folder)), RULES).findings)


def test_a_parameter_whose_values_cannot_be_compared_is_disclosed(tmp_path: Path) -> None:
    assert recorded(SPARSE, tmp_path).disclosures == (
        "whether the steps changed 1 parameter: values of sharded, sparse and quantized tensors are not compared",
    )


@pytest.mark.parametrize(
    ("changes", "severity", "words"),
    [
        ({"rate": "0.0"}, "warning", "the learning rate of their group is 0"),
        ({"rate": "0.0", "steps": "1"}, "note", "after the only step as before"),
        (
            {
                "model": "nn.Linear(4, 1).bfloat16()",
                "loss": PLAIN["loss"].replace("4)", "4).bfloat16()"),
                "rate": "1e-7",
            },
            "warning",
            "each step is too small for their dtype",
        ),
        ({"model": "nn.Linear(4, 1).requires_grad_()", "after": RESTORED}, "warning", "writes their old values back"),
    ],
)
def test_parameters_with_the_values_from_before_the_first_step_are_told_with_what_is_known(
    changes: dict[str, str], severity: str, words: str, tmp_path: Path
) -> None:
    script = LOOP.format(**PLAIN | changes)
    if changes.get("after") == RESTORED:
        script = script.replace("optimizer =", "nn.init.ones_(model.weight); nn.init.ones_(model.bias)\noptimizer =")
    (found,) = findings(script, tmp_path)
    assert (found.cause, found.severity, set(found.tensors)) == ("step_without_effect", severity, WEIGHTS)
    assert words in found.message


SLOPES = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 1, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    loss = (slope - x.detach().cos()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_bias_on_which_a_derivative_does_not_depend_is_told_as_such(tmp_path: Path) -> None:
    (found,) = (each for each in findings(SLOPES, tmp_path) if each.cause == "step_without_effect")
    assert (found.severity, found.tensors) == ("note", ("net.2.bias",))
    assert "no gradient arrives in .grad" in found.message
    assert "the last bias" in (found.why or "")


def test_a_bias_on_which_a_derivative_does_not_depend_does_not_count_as_reached(tmp_path: Path) -> None:
    case = Case(recorded(SLOPES, tmp_path))
    assert counted_outcomes(case) == "4 parameters: 3 reached, 1 of no influence (net.2.bias)"
    assert why(case, (), "net.2.bias").verdict.startswith("gets no gradient: the loss depends on a derivative")
    both = Case(recorded(SLOPES.replace("square().mean()", "square().mean() + net(x).square().mean()"), tmp_path))
    assert counted_outcomes(both) == "4 parameters, all reached"


ROUNDED = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def made(optimizer, warmup):
    def factor(step):
        if step < warmup:
            return (step + 1) {divided} warmup
        return 1.0
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
schedule = made(optimizer, 8)
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()
    schedule.step()
"""


def test_a_warmup_that_rounds_its_factor_to_zero_is_told_where_it_rounds(tmp_path: Path) -> None:
    (found,) = (each for each in findings(ROUNDED.format(divided="//"), tmp_path) if each.is_alarm)
    assert (found.cause, found.location and found.location.line) == ("step_without_effect", 10)
    assert "was 0 at its first 7 of 12 steps" in found.message
    assert not [each for each in findings(ROUNDED.format(divided="/"), tmp_path) if each.is_alarm]


ADAPTER = """
import torch
from torch import nn
torch.manual_seed(0)
base, down, up = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
nn.init.zeros_(up.weight)
optimizer = torch.optim.SGD([*down.parameters(), *up.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    loss = (base(x) + up(down(x)) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{zero}
"""


@pytest.mark.parametrize(
    ("zero", "is_told"),
    [
        ("with torch.no_grad():\n    base.weight += up.weight @ down.weight\n    up.weight.zero_()", False),
        ("base.weight.data += up.weight.data @ down.weight.data\nnn.init.zeros_(up.weight)", False),
        ("    up.weight.data.zero_()", True),
    ],
)
def test_a_parameter_that_is_filled_only_behind_the_last_step_was_trained(
    zero: str, is_told: bool, tmp_path: Path
) -> None:
    found = [each for each in findings(ADAPTER.format(zero=zero), tmp_path) if "up.weight" in each.tensors]
    assert bool([each for each in found if each.cause == "step_without_effect"]) is is_told


def test_a_compiled_step_that_changes_nothing_is_told_as_one_that_is_not_compiled() -> None:
    found = forked_result(
        """
import tempfile
from pathlib import Path
from tests.integration.rules.test_last_net import LOOP, PLAIN, findings

import logging
logging.disable(logging.WARNING)  # Dynamo says that it ignores a profiler's range in the optimizer
compiled = PLAIN | {"rate": "0.0", "after": "torch.compile(optimizer.step, backend='eager')()"}
told = findings(LOOP.format(**compiled), Path(tempfile.mkdtemp()))
print(json.dumps([[each.cause, each.severity] for each in told]))
"""
    )
    assert ["step_without_effect", "warning"] in found


def test_gradients_that_are_cleared_before_every_step_are_blamed_on_the_line_that_clears(tmp_path: Path) -> None:
    (found,) = (each for each in findings(STEP_BEFORE_BACKWARD, tmp_path) if each.is_alarm)
    assert found.location is not None
    line = STEP_BEFORE_BACKWARD.splitlines()[found.location.line - 1].strip()
    assert line in ("optimizer.zero_grad()", "optimizer.step()")


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (
            "nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))",
            "model(torch.randn(16, 4)).square().sum(1).sqrt().mean()",
        ),
        (
            "nn.Linear(4, 1)",
            "(model(torch.randn(5, 4)) - model(torch.randn(5, 4)) - torch.randn(5, 1)).square().mean()",
        ),
    ],
)
def test_a_bias_that_has_no_influence_is_a_note_and_no_alarm(model: str, loss: str, tmp_path: Path) -> None:
    # What reaches the bias is rounding, which the number of threads changes: the step must be far below its last digit.
    found = findings(LOOP.format(**PLAIN | {"model": model, "loss": loss, "rate": "0.001"}), tmp_path)
    assert {each.severity for each in found} == {"note"}
    assert {name for each in found for name in each.tensors} <= {"model.0.bias", "model.bias"}


def test_a_gradient_of_zero_in_the_only_step_is_a_note_that_asks_for_more_steps(tmp_path: Path) -> None:
    model = "nn.ParameterDict({'gate': torch.zeros(1), 'w': torch.ones(1)})"
    gated = PLAIN | {"model": model, "steps": "1", "loss": "(model['gate'] * model['w'] + 1).square().mean()"}
    (found,) = (each for each in findings(LOOP.format(**gated), tmp_path) if "model.w" in each.tensors)
    assert (found.cause, found.severity) == ("gradient_always_zero", "note")
    assert "in the only recorded step" in found.message and "record more steps" in (found.fix or "")


def test_a_finding_with_a_cause_replaces_those_of_the_last_net(tmp_path: Path) -> None:
    cut = PLAIN | {"loss": "model.bias.detach().square().mean().requires_grad_()"}
    causes = {each.cause for each in findings(LOOP.format(**cut), tmp_path)}
    assert causes
    assert causes.isdisjoint({"step_without_effect", "gradient_always_zero"})


def test_a_term_of_the_loss_whose_weight_is_always_zero_is_a_note(tmp_path: Path) -> None:
    loss = f"({PLAIN['loss']} + (1 // 10) * model.weight.abs().sum())"
    (found,) = findings(LOOP.format(**PLAIN | {"loss": loss}), tmp_path)
    assert (found.cause, found.severity, found.tensors) == ("term_without_gradient", "note", ("model.weight",))


OWN_OPTIMIZER = """
import torch

class Lars(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            trust = 0.001 * p.norm() / p.grad.norm()
            p.add_(p.grad * trust.int(), alpha=-self.param_groups[0]["lr"])  # HERE

def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = Lars(model.parameters())
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

main()
"""


def test_steps_that_move_nothing_are_told_of_a_model_that_is_freed_before_the_end(tmp_path: Path) -> None:
    assert_first_alarm(OWN_OPTIMIZER, "step_without_effect", tmp_path)


CRITIC = """
import torch
from torch import nn
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
of_generator, of_critic = (torch.optim.Adam(each.parameters(), 1e-3) for each in (generator, critic))
for step in range(4):
    fake = generator(torch.randn(8, 4)) / 9
    loss = torch.relu(1 - critic(torch.randn(8, 2) / 9)).mean() + torch.relu(1 + critic(fake.detach())).mean()
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    of_generator.zero_grad()
    (-critic(fake).mean()).backward()
    of_generator.step()
"""


def test_a_gradient_that_another_loss_leaves_behind_is_not_taken_for_that_of_the_last_step(tmp_path: Path) -> None:
    (found,) = findings(CRITIC, tmp_path)
    assert (found.cause, found.severity, found.tensors[-1]) == ("step_without_effect", "note", "critic.2.bias")
    assert "the last gradient that a step used is exactly zero" in found.message


RANKED = """
import torch
from torch import nn
torch.manual_seed(0)
users, items, shift = nn.Embedding(20, 4), nn.Embedding(30, 4), nn.Embedding(20, 2)
context = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.Adam([*users.parameters(), *items.parameters(), *shift.parameters(), *context.parameters()])
def score(u, c, i):
    return SCORE
for step in range(5):
    u, c, i, j = torch.randint(20, (16,)), torch.randn(16, 3), torch.randint(30, (16,)), torch.randint(30, (16,))
    loss = -nn.functional.logsigmoid(score(u, c, i) - score(u, c, j)).mean()  # HERE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_network_that_cancels_in_a_difference_is_told_where_it_does(tmp_path: Path) -> None:
    script = RANKED.replace("SCORE", "((users(u) + shift(u)[:, :1]) * items(i)).sum(1) + context(c).mean(1)")
    assert_first_alarm(script, "gradient_always_zero", tmp_path)


def test_a_shift_for_each_user_that_cancels_is_only_a_note(tmp_path: Path) -> None:
    script = RANKED.replace("SCORE", "((users(u) + context(c)) * items(i)).sum(1) + shift(u).sum(1)")
    assert {(each.cause, each.severity) for each in findings(script, tmp_path)} == {("gradient_always_zero", "note")}


BOUNDED = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def quality(y, x):
    return -(y - x).square().mean(1) - 1
for step in range(8):
    x = torch.randn(16, 4)
    loss = -quality(net(x), x).clamp(0, 30).mean()  # HERE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_loss_that_is_zero_from_the_first_step_on_in_all_that_trains_is_told(tmp_path: Path) -> None:
    assert_first_alarm(BOUNDED, "gradient_always_zero", tmp_path)


def test_a_learning_rate_of_zero_comes_before_gradients_that_are_zero_because_of_it(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn
torch.manual_seed(0)
net, out = nn.Linear(4, 8), nn.Linear(8, 4)
nn.init.zeros_(out.weight)
optimizer = torch.optim.Adam([*net.parameters(), *out.parameters()], lr=0.0)  # HERE
for step in range(12):
    x = torch.randn(16, 4)
    loss = (x + out(torch.tanh(net(x))) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert_first_alarm(script, "step_without_effect", tmp_path)
