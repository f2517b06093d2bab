"""``copy.deepcopy()`` that raises as something in what it copies has a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.kept = {initial}
    def forward(self, x):
{body}
    def attend(self, x):
        return self.layer(x).softmax(-1)
model = Net()
model(torch.randn(3, 4)).square().sum().backward()
"""
VARIABLE = """
        weights = self.attend(x)
        self.kept = weights  # HERE
        return weights @ x.T
"""
CALL = """
        self.kept = self.attend(x)  # HERE
        return self.kept @ x.T
"""
LIST = """
        self.kept.append(self.attend(x))  # HERE
        return self.kept[-1] @ x.T
"""
BY_KEY = """
        weights = self.attend(x)
        self.keep("last", weights)
        return weights @ x.T
    def keep(self, key, value):
        self.kept[key] = value  # HERE
"""
COPY = "copied = copy.deepcopy(model)\n"


def script(body: str, *, initial: str = "None", end: str = COPY) -> str:
    return HEAD + MODEL.format(body=body, initial=initial) + end


@pytest.mark.parametrize(("body", "initial"), [(VARIABLE, "None"), (CALL, "None"), (LIST, "[]"), (BY_KEY, "{}")])
def test_the_line_that_stored_the_tensor_is_told(body: str, initial: str, tmp_path: Path) -> None:
    program = script(body, initial=initial)
    assert_first_alarm(program, "copied_with_graph", tmp_path)
    (found,) = alarms(program, tmp_path)
    copying = next(number for number, line in enumerate(program.splitlines(), start=1) if line == COPY.strip())
    assert found.symptom_location is not None
    assert found.symptom_location.line == copying
    assert "model.kept" in found.message


def test_it_says_how_to_keep_the_values_only(tmp_path: Path) -> None:
    (found,) = alarms(script(VARIABLE), tmp_path)
    assert found.fix == "keep it without its graph: self.kept = weights.detach()"
    assert found.tensors == ("model.kept",)


OTHER_HOLDER = f"""
class Trainer:
    def __init__(self, net):
        self.net = net
    def snapshot(self):
        {COPY.strip().replace("model", "self")}
Trainer(model).snapshot()
"""


def test_a_model_inside_of_what_is_copied(tmp_path: Path) -> None:
    assert_first_alarm(script(VARIABLE, end=OTHER_HOLDER), "copied_with_graph", tmp_path)


PLAIN = "layer = nn.Linear(4, 4)\nh = layer(torch.randn(3, 4))\nh.square().sum().backward()\n"
TENSOR = f"{PLAIN}kept = copy.deepcopy(h)  # HERE\n"
PRUNED = """
import torch.nn.utils.prune as prune
layer = nn.Linear(4, 4)
prune.l1_unstructured(layer, "weight", amount=0.5)  # HERE
layer(torch.randn(3, 4)).square().sum().backward()
best = copy.deepcopy(layer)
"""
NORMALIZED = """
import warnings
warnings.simplefilter("ignore")
from torch.nn.utils import weight_norm
layer = weight_norm(nn.Linear(4, 4))  # HERE
layer(torch.randn(3, 4)).square().sum().backward()
best = copy.deepcopy(layer)
"""


@pytest.mark.parametrize(
    ("program", "advice"),
    [(TENSOR, "h.detach().clone()"), (PRUNED, "prune.remove()"), (NORMALIZED, "parametrizations.weight_norm()")],
)
def test_tensors_that_are_copied_alone_and_weights_that_torch_computes(
    program: str, advice: str, tmp_path: Path
) -> None:
    assert_first_alarm(HEAD + program, "copied_with_graph", tmp_path)
    assert advice in alarms(HEAD + program, tmp_path)[0].fix


CAUGHT = """
try:
    copied = copy.deepcopy(model)
except RuntimeError:
    copied = Net()
    copied.load_state_dict(model.state_dict())
"""


@pytest.mark.parametrize("last", ["", "raise ValueError('no more data')\n", "torch.ones(3) @ torch.ones(4)\n"])
def test_an_error_that_the_program_catches(last: str, tmp_path: Path) -> None:
    assert alarms(script(VARIABLE, end=CAUGHT + last), tmp_path) == []


def test_values_that_are_kept_without_a_graph(tmp_path: Path) -> None:
    detached = VARIABLE.replace("self.kept = weights ", "self.kept = weights.detach() ")
    assert alarms(script(detached), tmp_path) == []
    assert alarms(script(VARIABLE, end=f"model.kept = None\n{COPY}"), tmp_path) == []
