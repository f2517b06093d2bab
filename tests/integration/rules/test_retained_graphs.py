"""Graphs of earlier steps that are kept alive are found, with their holder and its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.recording.calls.rows import Rows
from tests.integration.rules.test_failed_backwards import findings_in, marked_line

LOSSES_IN_A_DICT_OF_A_FUNCTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)

def main():
    net, stats = Net(), {"loss": []}
    for _ in range(9):
        loss = net(torch.randn(5, 4)).square().mean()
        loss.backward()
        stats["loss"].append(loss)  # here

main()
"""
TOTAL_IN_A_METER = """
class Meter:
    total = 0.0

    def update(self, value):
        self.total = self.total + value  # here

weight, meter = torch.ones(3, requires_grad=True), Meter()
for _ in range(6):
    loss = weight.exp().sum()
    loss.backward()
    meter.update(loss)
"""
RUNNING_MEAN_IN_A_BUFFER = """
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, x):
        self.centre = 0.9 * self.centre + 0.1 * x.mean(0)  # here
        return x - self.centre.detach()

net = nn.Sequential(nn.Linear(4, 3), Centred())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    net(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()
"""
PRIORITIES_BESIDE_A_LARGE_BUFFER = """
weight, buffer, priorities = torch.ones(3, requires_grad=True), [], []
for step in range(40):
    buffer += [(torch.randn(3), torch.randn(3)) for _ in range(20)]
    error = (weight * buffer[step][0]).square()
    error.mean().backward()
    priorities.append(error)  # here
"""
PREDICTIONS_OF_A_VALIDATION = """
net, predictions = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
net(torch.randn(2, 4)).sum().backward()
for _ in range(6):
    output = net(torch.randn(2, 4))
    predictions.append(output)  # here
"""
AVERAGES_OF_A_TRAINING_THAT_ENDS_WITH_A_VALIDATION = """
net, level, seen = nn.Linear(4, 1), {}, {}
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def slope():
    x = torch.randn(8, 4, requires_grad=True)
    return torch.autograd.grad(net(x).square().mean(), x, create_graph=True)[0].square().mean()
for step in range(15):
    loss = slope()
    opt.zero_grad(); loss.backward(); opt.step()
    level["all"] = 0.9 * level.get("all", loss) + 0.1 * loss  # here
for step in range(4):
    loss = slope()
    seen["all"] = 0.9 * seen.get("all", loss) + 0.1 * loss
"""
LOSSES_OF_A_VALIDATION_AND_THEIR_MEAN = """
net, losses = nn.Linear(4, 1), []
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    for _ in range(3):
        losses.append(net(torch.randn(2, 4)).square().mean())  # here
    print(sum(losses[-3:]) / 3, min(losses))
"""
AVERAGE_OF_A_VALIDATION = """
net, smooth = nn.Linear(4, 1), {"loss": torch.zeros(())}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    held_out = net(torch.randn(2, 4)).square().mean()
    smooth["loss"] = 0.9 * smooth["loss"] + 0.1 * held_out  # here
"""
ACTIVATIONS_IN_A_MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 1), []

    def forward(self, x):
        hidden = self.layer(x).relu()
        self.seen.append(hidden)  # here
        return hidden.sum()

net = Net()
for _ in range(6):
    net(torch.randn(2, 4)).backward()
"""
ACTIVATIONS_KEPT_BY_A_HOOK = """
from collections import defaultdict
net, seen = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), defaultdict(list)

def watch(module, args, output):
    seen["nothing"].append(0)
    seen["hidden"].append(output)  # here

net[0].register_forward_hook(watch)
for _ in range(6):
    net(torch.randn(2, 4)).sum().backward()
"""
GRAPH_OF_THE_GRADIENT_IN_GRAD = """
layer = nn.Linear(3, 3)
for _ in range(6):
    x = torch.randn(4, 3, requires_grad=True)
    layer(x).square().sum().backward(create_graph=True)  # here
    penalty = x.grad.square().sum()
    layer.zero_grad()
    penalty.backward()
"""
RESULT_ON_CTX = """
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.kept = (inputs[0], output)  # here

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.kept[1]

Exp.apply(torch.randn(4, requires_grad=True) * 2).sum().backward()
"""
WHAT_ONE_STEP_LEAVES = """
from collections import deque
cell, heads = nn.RNNCell(3, 4), nn.ModuleList(nn.Linear(4, 1) for _ in range(5))
optimizer = torch.optim.SGD([*cell.parameters(), *heads.parameters()], lr=0.1)
recent, logged = deque(maxlen=3), []
for _ in range(9):
    state, outputs = torch.zeros(2, 4), []
    for _ in range(4):
        state = cell(torch.randn(2, 3), state)
        outputs.append(state)
    optimizer.zero_grad()
    losses = [head(torch.stack(outputs)).square().mean() for head in heads]
    torch.stack(losses).sum().backward()
    optimizer.step()
    recent.append(losses[0].detach())
    logged.append(losses[1].item())
"""
ONE_OF_SEVERAL_HEADS = """
trunk, heads = nn.Linear(4, 6), nn.ModuleList(nn.Linear(6, 3) for _ in range(4))
optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
for step in range(20):
    x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
    logits = {name: head(trunk(x)) for name, head in enumerate(heads)}
    losses = [nn.functional.cross_entropy(each, y) for each in logits.values()]
    optimizer.zero_grad()
    losses[step % 4].backward()
    optimizer.step()
"""
GRADIENTS_THROUGH_AN_INNER_LOOP = """
slow = torch.randn(3, requires_grad=True)
optimizer = torch.optim.SGD([slow], lr=0.01)
for _ in range(5):
    total = 0
    for goal in range(3):
        fast = slow
        for _ in range(3):
            (gradient,) = torch.autograd.grad((fast * torch.randn(3)).square().sum(), fast, create_graph=True)
            fast = fast - 0.1 * gradient
        total = total + (fast - goal).square().sum()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""
WITHOUT_AN_OPTIMIZER = """
slow = torch.randn(3, requires_grad=True)
for _ in range(8):
    fast = slow
    for _ in range(6):
        (gradient,) = torch.autograd.grad((fast * torch.randn(3)).square().sum(), fast, create_graph=True)
        fast = fast - 0.1 * gradient
    (gradient,) = torch.autograd.grad((fast - 1).square().sum(), slow)
    slow = (slow - 0.1 * gradient).detach().requires_grad_()
"""


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")  # that is what the program does wrong
@pytest.mark.parametrize(
    ("holder", "program"),
    [
        ("stats['loss'][6]", LOSSES_IN_A_DICT_OF_A_FUNCTION),
        ("meter.total", TOTAL_IN_A_METER),
        ("net.1.centre", RUNNING_MEAN_IN_A_BUFFER),
        ("smooth['loss']", AVERAGE_OF_A_VALIDATION),
        ("losses[11]", LOSSES_OF_A_VALIDATION_AND_THEIR_MEAN),
        ("priorities[", PRIORITIES_BESIDE_A_LARGE_BUFFER),
        ("predictions[4]", PREDICTIONS_OF_A_VALIDATION),
        ("level['all']", AVERAGES_OF_A_TRAINING_THAT_ENDS_WITH_A_VALIDATION),
        ("net.seen[5]", ACTIVATIONS_IN_A_MODULE),
        ("seen['hidden'][5]", ACTIVATIONS_KEPT_BY_A_HOOK),
        ("create_graph=True", GRAPH_OF_THE_GRADIENT_IN_GRAD),
        ("ctx.kept[1]", RESULT_ON_CTX),
    ],
)
def test_the_holder_of_the_graphs_is_named_with_the_line_that_keeps_them(
    holder: str, program: str, tmp_path: Path
) -> None:
    finding = findings_in(program, tmp_path)[0]
    assert finding.location is not None
    assert (finding.cause, finding.location.line) == ("graph_retained_leak", marked_line(program))
    assert holder in finding.message


@pytest.mark.parametrize(
    "program", [WHAT_ONE_STEP_LEAVES, ONE_OF_SEVERAL_HEADS, GRADIENTS_THROUGH_AN_INNER_LOOP, WITHOUT_AN_OPTIMIZER]
)
def test_what_one_step_leaves_in_variables_is_no_leak(program: str, tmp_path: Path) -> None:
    assert findings_in(program, tmp_path) == ()


TRAINER = """
def fit(model, rounds):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(rounds):
        loss = model.training_step(torch.randn(5, 4))
        optimizer.zero_grad()
        run_backward(model, loss)
        optimizer.step()

def run_backward(model, loss):
    loss.backward()
"""
TRAINED_BY_A_LIBRARY = """
import sys
sys.path.insert(0, {folder!r})
import trainer

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.history, self.other = nn.Linear(4, 1), [], []

    def training_step(self, x):
        loss = self.layer(x).square().mean()
        self.history.append({kept})  # here
        return loss

{ran}
"""


@pytest.mark.parametrize("ran", ["def main():\n    trainer.fit(Net(), 9)\nmain()", "trainer.fit(Net(), 9)"])
def test_losses_are_found_in_a_module_that_only_a_library_holds(ran: str, tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "trainer.py").write_text("import torch\n" + TRAINER)
    program = TRAINED_BY_A_LIBRARY.format(folder=str(library), ran=ran, kept="loss")
    finding = findings_in(program, tmp_path)[0]
    assert finding.location is not None
    assert (finding.cause, finding.location.line) == ("graph_retained_leak", marked_line(program))
    assert "net.history[" in finding.message
    healthy = TRAINED_BY_A_LIBRARY.format(folder=str(library), ran=ran, kept="loss.detach()")
    assert findings_in(healthy, tmp_path) == ()


KEPT_IN_A_LONG_RUN = """
net, kept = nn.Linear(4, 1), []
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(70):
    loss = net(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    [torch.ones(2) for _ in range(20)]
    kept.append(loss)  # here
"""


def test_in_a_long_run_only_some_of_the_graphs_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = findings_in(KEPT_IN_A_LONG_RUN, tmp_path)[0]
    assert "hold the graphs of 70 forward passes" in whole.message
    monkeypatch.setattr(Rows.__init__, "__defaults__", (400,))
    part = findings_in(KEPT_IN_A_LONG_RUN, tmp_path)[0]
    assert part.cause == "graph_retained_leak"
    assert "hold the graphs of at least " in part.message


TEACHER = """
from torch.func import functional_call

def average(teacher, student):
    return {{name: {averaged} for name in teacher}}

def main():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    student = dict(net.named_parameters())
    teacher = {{name: value.detach().clone() for name, value in student.items()}}
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        x = torch.randn(16, 4)
        wanted = functional_call(net, teacher, (x,)).softmax(-1)
        loss = nn.functional.mse_loss(net(x + 0.1 * torch.randn(16, 4)).softmax(-1), wanted)
        optimizer.zero_grad()
        loss.backward({kept})
        optimizer.step()
        teacher = average(teacher, student)  # here

main()
"""
TEACHER_IN_PLACE = """
import copy

def main():
    net = nn.Linear(4, 3)
    teacher = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        x = torch.randn(16, 4)
        loss = nn.functional.mse_loss(net(x + 0.1 * torch.randn(16, 4)).softmax(-1), teacher(x).softmax(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(teacher.parameters(), net.parameters()):
            slow.lerp_({fast}, 0.05)  # here

main()
"""
WEIGHTS_IN_A_LIST = """
def forward(weights, x):
    return (x @ weights[0]).relu() @ weights[1]

def main():
    weights = [torch.randn(4, 8, requires_grad=True), torch.randn(8, 3, requires_grad=True)]
    slow = [each.detach().clone() for each in weights]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    for _ in range(60):
        x = torch.randn(16, 4)
        loss = nn.functional.mse_loss(forward(weights, x), forward(slow, x + 0.1 * torch.randn(16, 4)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slow = [torch.lerp(old, {new}, 0.05) for old, new in zip(slow, weights)]  # here

main()
"""
LOSS_OF_ANOTHER_OPTIMIZER = """
def main():
    net, other = nn.Linear(4, 3), nn.Linear(3, 1)
    optimizer, slower = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (net, other))
    for _ in range(20):
        total = 0.0
        for _ in range(8):
            total = total + other(net(torch.randn(16, 4)).detach()).square().mean()
            loss = net(torch.randn(16, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        slower.zero_grad()
        total.backward()
        slower.step()

main()
"""
_LERP = "torch.lerp(teacher[name], student[name], 0.05)"
_SUM = "0.95 * teacher[name] + 0.05 * student[name]"


@pytest.mark.parametrize(
    "program",
    [
        TEACHER.format(averaged=_LERP, kept=""),
        TEACHER.format(averaged=_SUM, kept="retain_graph=True"),
        TEACHER_IN_PLACE.format(fast="fast"),
        WEIGHTS_IN_A_LIST.format(new="new"),
    ],
)
def test_an_average_with_a_graph_is_told_once_at_its_line_though_backward_goes_through_it(
    program: str, tmp_path: Path
) -> None:
    (finding,) = (each for each in findings_in(program, tmp_path) if each.cause == "graph_retained_leak")
    assert finding.location is not None
    assert finding.location.line == marked_line(program)


@pytest.mark.parametrize(
    "program",
    [
        TEACHER.format(averaged="torch.lerp(teacher[name], student[name].detach(), 0.05)", kept=""),
        TEACHER.format(averaged="(0.95 * teacher[name] + 0.05 * student[name]).detach()", kept="retain_graph=True"),
        TEACHER_IN_PLACE.format(fast="fast.detach()"),
        WEIGHTS_IN_A_LIST.format(new="new.detach()"),
        LOSS_OF_ANOTHER_OPTIMIZER,
    ],
)
def test_an_average_without_a_graph_and_a_loss_over_some_steps_of_another_optimizer_are_no_leak(
    program: str, tmp_path: Path
) -> None:
    assert [each for each in findings_in(program, tmp_path) if each.cause == "graph_retained_leak"] == []
