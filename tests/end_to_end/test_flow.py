"""``gradviz flow``: every parameter's gradient, from a script or from its capture, with or without torch."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gradviz.analysis.flow.flow_document import FlowDocument
from tests.end_to_end.command import gradviz, refused, written_script

FADING = """
import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(8, 8), nn.Sigmoid())))
        self.dead = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)
        self.unused = nn.Linear(3, 3)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)

    def forward(self, x):
        h = self.frozen(self.layers(x))
        return self.head(h + torch.relu(self.dead(h) - 100))

net = Net()
loss = net(torch.randn(16, 8)).pow(2).mean()
loss.backward()
"""


@pytest.fixture
def fading(folder: Path) -> Path:
    return written_script(folder, FADING)


def test_a_vanishing_gradient_a_dead_layer_and_unreached_parameters_are_reported(fading: Path, folder: Path) -> None:
    run = gradviz("flow", fading, "--width", "80", cwd=folder)
    assert run.exit_code == 0, run.stderr
    assert all(len(line) <= 80 for line in run.stdout.splitlines())
    assert "VANISHING" in run.stdout
    assert "all zero since ReluBackward0 at train.py:18: net.dead.weight, net.dead.bias" in run.stdout
    assert "frozen (requires_grad=False): net.frozen.weight, net.frozen.bias" in run.stdout
    assert "net.unused.weight, net.unused.bias" in run.stdout.replace("\n  ", " ")


def test_a_capture_gives_the_same_table_as_its_script(fading: Path, folder: Path) -> None:
    gradviz("record", fading, cwd=folder)
    of_script = gradviz("flow", fading, cwd=folder)
    of_capture = gradviz("flow", "train.gradviz", cwd=folder)
    assert of_script.stdout == of_capture.stdout != ""


def test_depth_folds_parameters_into_modules(fading: Path, folder: Path) -> None:
    run = gradviz("flow", fading, "--depth", "1", "--ascii", cwd=folder)
    rows = [line.split()[0] for line in run.stdout.splitlines() if line.startswith("net.")]
    assert rows == ["net.layers", "net.dead", "net.head"]
    assert run.stdout.isascii()


def test_json_has_every_parameter_in_the_order_of_the_model(fading: Path, folder: Path) -> None:
    run = gradviz("flow", fading, "--json", cwd=folder)
    msgspec.json.decode(run.stdout, type=FlowDocument)
    (flow,) = json.loads(run.stdout)["flows"]
    names = [row["name"] for row in flow["parameters"]]
    assert names[0] == "net.layers.0.weight"
    assert len(names) == 2 * 8 + 2 * 4
    assert flow["trend"]["verdict"] == "vanishing"


def test_nan_is_traced_to_the_operation_that_made_it(folder: Path) -> None:
    script = written_script(
        folder,
        "import torch\nw = torch.zeros(3, requires_grad=True)\nh = w.sqrt() * 0\nh.sum().backward()\n",
    )
    run = gradviz("flow", script, cwd=folder)
    assert "NaN or Inf first made by SqrtBackward0 at train.py:3" in run.stdout
    assert "3/0" in run.stdout


def test_a_capture_without_gradients_says_how_to_record_them(fading: Path, folder: Path) -> None:
    gradviz("record", fading, "--no-gradients", cwd=folder)
    assert "without --no-gradients" in refused("flow", "train.gradviz", cwd=folder)
    assert "without --no-gradients" in refused("tree", "train.gradviz", "--columns", "gradient", cwd=folder)
    assert "with --values" in refused("tree", "train.gradviz", "--columns", "+value", cwd=folder)


def test_options_that_leave_nothing_to_show_are_refused_before_the_script_runs(fading: Path, folder: Path) -> None:
    assert "--no-gradients" in refused("flow", fading, "--no-gradients", cwd=folder)
    assert "--root" in refused("flow", fading, "--root", "loss", cwd=folder)
    assert "--depth" in refused("flow", fading, "--depth", "1", "--all", cwd=folder)
    assert "--depth" in refused("flow", fading, "--depth", "1", "--json", cwd=folder)
    assert "--values" in refused("tree", fading, "--columns", "value", cwd=folder)
    assert "--root-shares" in refused("record", fading, "--root-shares", "--no-gradients", cwd=folder)


@pytest.mark.parametrize(
    ("call", "message", "ours"),
    [
        ("y.backward(torch.ones(3))", "Mismatch in shape: grad_output[0]", "was given a gradient of shape [3]"),
        ("torch.autograd.grad([y], [w])", "grad can be implicitly created only for scalar", "was given no gradient"),
    ],
)
def test_a_start_gradient_that_does_not_fit_is_torchs_own_message_and_names_the_root(
    call: str, message: str, ours: str, folder: Path
) -> None:
    source = f"import torch\nw = torch.ones(2, requires_grad=True)\ny, other = w * 2, (w * 3).sum()\n{call}\n"
    script = written_script(folder, source)
    run = gradviz("render", script, cwd=folder)
    assert run.exit_code == 1
    assert message in run.stderr
    assert "graph of y; the script failed" in run.stdout
    assert f"did not begin: y has shape [2], and {ours}" in run.stdout


TWO_LOSSES = """
import torch
w = torch.ones(3, requires_grad=True)
fit = (w * torch.tensor([1.0, 2.0, 3.0])).sum()
penalty = -(w * torch.tensor([1.0, 2.0, 0.0])).sum()
(fit + 2 * penalty).backward()
"""


def test_losses_that_pull_against_each_other_are_reported_with_their_shares(folder: Path) -> None:
    script = written_script(folder, TWO_LOSSES)
    run = gradviz("flow", script, "--root-shares", "--width", "80", cwd=folder)
    assert "what each of 2 losses adds to each gradient: fit, penalty" in run.stdout
    assert "conflicts over all parameters: fit and penalty (-0.60)" in run.stdout
    assert all(len(line) <= 80 for line in run.stdout.splitlines())


def test_shares_of_losses_are_kept_in_the_recording_and_reported_as_json(folder: Path) -> None:
    script = written_script(folder, TWO_LOSSES)
    gradviz("record", script, "--root-shares", cwd=folder)
    (flow,) = json.loads(gradviz("flow", "train.gradviz", "--json", cwd=folder).stdout)["flows"]
    assert [loss["name"] for loss in flow["losses"]] == ["fit", "penalty"]
    (parameter,) = flow["parameters"]
    assert sum(each["share"] for each in parameter["losses"]) == pytest.approx(1)
    assert parameter["cosines"][0]["cosine"] == pytest.approx(-0.5976, abs=1e-3)


BROKEN = """
import torch

class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no formula")

w, v = (torch.ones(3, requires_grad=True) for _ in range(2))
loss = (Broken.apply(w) + v.exp()).sum()
loss.backward()
"""


def test_what_ran_before_backward_failed_is_kept_and_the_place_is_reported(folder: Path) -> None:
    script = written_script(folder, BROKEN)
    run = gradviz("flow", script, cwd=folder)
    assert run.exit_code == 1
    assert "ValueError: no formula" in run.stderr
    assert "backward failed in BrokenBackward at train.py:14" in run.stdout
    tree = gradviz("tree", script, "--columns", "gradient", cwd=folder).stdout
    assert "1.73" in tree, "the gradient that reached the sum"
