"""Gradients that are zero, NaN or Inf are explained: by which operation, of which values, and on which line.

In each program the guilty line ends in ``# here``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules import RULES
from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.integration.recording.helpers import EVERY_CALL, recorded_script

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)


def train(loss_of, parameters, steps=3):
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
"""


def alarms(folder: Path, program: str) -> list[Finding]:
    capture = recorded_script(folder, TRAINING + program, EVERY_CALL)
    return [finding for finding in check_case(Case(capture), RULES).findings if finding.is_alarm]


def guilty_line(program: str) -> int:
    lines = (TRAINING + program).splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text.endswith("# here"))
    return line


BROKEN: dict[str, tuple[str, str | None, str]] = {
    "the slope at the end of an arc": (
        "nan_from_op",
        "AcosBackward0",
        """
w = nn.Parameter(torch.eye(3))
train(lambda: torch.acos((w * torch.eye(3)).sum(1)).mean(), [w])  # here
""",
    ),
    "the logarithm of a probability of zero": (
        "nan_from_op",
        "LogBackward0",
        """
m = nn.Linear(3, 4)
banned = torch.tensor([True, False, False, False])
def entropy():
    p = m(torch.randn(5, 3)).masked_fill(banned, float("-inf")).softmax(-1)
    logarithm = p.log()  # here
    return (p * logarithm).sum()
train(entropy, m.parameters())
""",
    ),
    "a mask that multiplies": (
        "nan_in_masked_branch",
        "SqrtBackward0",
        """
w = nn.Parameter(torch.tensor([0.0, 1.0, 2.0]))
def loss():
    roots = w.sqrt()  # here
    return (roots * torch.tensor([0.0, 1.0, 1.0])).sum()
train(loss, [w])
""",
    ),
    "a row of a softmax that is masked as a whole, and cleaned up after": (
        "nan_in_masked_branch",
        "SoftmaxBackward0",
        """
m = nn.Linear(3, 4)
hidden = torch.tensor([[True, False, False, False], [True, True, True, True]])
def loss():
    scores = m(torch.randn(2, 3)) + torch.zeros(2, 4).masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1)  # here
    return torch.nan_to_num(weights).square().sum()
train(loss, m.parameters())
""",
    ),
    "an assignment that comes too late": (
        "nan_in_masked_branch",
        "DivBackward0",
        """
m = nn.Linear(3, 1)
x, n = torch.randn(4, 3), torch.tensor([[1.0], [0.0], [2.0], [0.0]])
def loss():
    mean = m(x) * 0 / n  # here
    mean[n == 0] = 1.0
    return mean.sum() + m(x).sum()
train(loss, m.parameters())
""",
    ),
    "a softmax by hand": (
        "overflow",
        "ExpBackward0",
        """
m = nn.Linear(4, 3)
x = 1000 * torch.randn(6, 4)
def loss():
    e = torch.exp(m(x))  # here
    return (e / e.sum(1, keepdim=True)).pow(2).sum()
train(loss, m.parameters())
""",
    ),
    "fewer frames than symbols": (
        "overflow",
        "SumBackward0",
        """
m = nn.Linear(4, 5)
x = torch.randn(6, 2, 4)
lengths = torch.tensor([6, 2]), torch.tensor([3, 3])
def loss():
    logs, symbols = m(x).log_softmax(-1), torch.tensor([[1, 2, 3], [1, 2, 3]])
    return nn.functional.ctc_loss(logs, symbols, *lengths, reduction="sum")  # here
train(loss, m.parameters())
""",
    ),
    "a NaN among the targets": (
        "nan_in_data",
        None,
        """
m = nn.Linear(2, 1)
targets = torch.tensor([[1.0], [float("nan")]])  # here
train(lambda: nn.functional.mse_loss(m(torch.randn(2, 2)), targets), m.parameters())
""",
    ),
}

ZERO: dict[str, tuple[str, str | None, str]] = {
    "a single class": (
        "zero_gradient_op",
        "LogSoftmaxBackward0",
        """
m = nn.Linear(4, 1)
x, target = torch.randn(5, 4), torch.zeros(5, dtype=torch.long)
train(lambda: nn.functional.cross_entropy(m(x), target), m.parameters())  # here
""",
    ),
    "a softmax that a container holds": (
        "zero_gradient_op",
        "SoftmaxBackward0",
        """
m = nn.Sequential(
    nn.Linear(4, 1),
    nn.Softmax(dim=-1),  # here
)
train(lambda: m(torch.randn(5, 4)).sum(), m.parameters())
""",
    ),
    "a bias far below zero": (
        "dead_relu",
        "ClampBackward1",
        """
a, b = nn.Linear(4, 8), nn.Linear(8, 1)
a.bias.data.fill_(-30)  # here
train(lambda: b(a(torch.randn(5, 4)).clamp(min=0)).sum(), [*a.parameters(), *b.parameters()])
""",
    ),
    "data that was never scaled": (
        "saturation",
        "TanhBackward0",
        """
m = nn.Linear(4, 3)
x = 1e7 * torch.rand(5, 4) + 1e7
train(lambda: torch.tanh(m(x)).sum(), m.parameters())  # here
""",
    ),
    "data that was never scaled, with weights drawn for their width": (
        "saturation",
        "TanhBackward0",
        """
m = nn.Linear(512, 512)
nn.init.kaiming_normal_(m.weight)
x = torch.full((5, 512), 1e6)
train(lambda: torch.tanh(m(x)).sum(), m.parameters())  # here
""",
    ),
    "weights of both signs that are a few times too large for their width": (
        "saturation",
        "HardtanhBackward0",
        """
m = nn.Linear(16, 2)
nn.init.normal_(m.weight, std=1)  # here
x = 4 * torch.ones(5, 16)
train(lambda: nn.functional.hardtanh(m(x)).sum(), m.parameters())
""",
    ),
    "a mask that is empty": (
        "masked_out",
        "MulBackward0",
        """
a, b = nn.Linear(4, 1), nn.Linear(4, 1)
x, lengths = torch.randn(5, 4), torch.tensor([1, 2, 3, 4, 5])
is_long = lengths > 100  # here
train(lambda: a(x).sum() + (b(x)[:, 0] * is_long.float()).sum(), [*a.parameters(), *b.parameters()])
""",
    ),
    "a condition that never holds": (
        "masked_out",
        "WhereBackward0",
        """
a, b = nn.Linear(4, 3), nn.Linear(4, 3)
x = torch.rand(5, 4)
def loss():
    gate = x[:, :1] > 50  # here
    return torch.where(gate, a(x), b(x)).pow(2).sum()
train(loss, [*a.parameters(), *b.parameters()])
""",
    ),
}

STEEP: dict[str, tuple[str, str | None, str]] = {
    "a recurrent weight that is too large": (
        "exploding_chain",
        "MmBackward0",
        """
inner, w = nn.Linear(3, 16), nn.Parameter(torch.randn(16, 16) * 0.9)  # here
def loss():
    h = torch.zeros(2, 16)
    for _ in range(16):
        h = inner(torch.randn(2, 3)) + h @ w
    return h.sum()
train(loss, [*inner.parameters(), w], steps=1)
""",
    ),
    "a state that many gates multiply, under a loss that vanishes with it": (
        "vanishing_chain",
        "MulBackward0",
        """
gates, inner = [nn.Linear(8, 8) for _ in range(20)], nn.Linear(8, 8)
x = torch.randn(4, 8)
def loss():
    h = inner(x)
    for gate in gates:
        h = h * torch.sigmoid(gate(x))  # here
    return h.pow(2).sum()
train(loss, [p for layer in (*gates, inner) for p in layer.parameters()], steps=1)
""",
    ),
    "weights that are drawn too small": (
        "vanishing_chain",
        "AddmmBackward0",
        """
layers = [nn.Linear(16, 16) for _ in range(12)]
for layer in layers:
    nn.init.normal_(layer.weight, std=0.01)  # here
def loss():
    h = torch.randn(2, 16)
    for layer in layers:
        h = torch.tanh(layer(h))
    return h.sum()
train(loss, [p for layer in layers for p in layer.parameters()], steps=1)
""",
    ),
}


@pytest.mark.parametrize(("cause", "operation", "program"), (BROKEN | ZERO | STEEP).values(), ids=BROKEN | ZERO | STEEP)
def test_the_cause_the_operation_and_the_line_are_named(
    cause: str, operation: str | None, program: str, tmp_path: Path
) -> None:
    first = alarms(tmp_path, program)[0]
    assert (first.cause, first.op) == (cause, operation)
    assert first.location is not None
    assert first.location.line == guilty_line(program)
    assert first.tensors


HEALTHY = {
    "a loss in large units, and a few factors below one": """
heads, x = [nn.Linear(8, 1) for _ in range(8)], torch.randn(4, 8)
def loss():
    total = sum(head(x) for head in heads).mean() / 1e8
    for _ in range(8):
        total = total * 0.9
    return total
train(loss, [p for head in heads for p in head.parameters()], steps=1)
""",
    "a recurrent cell of one's own that has nearly learnt": """
inner, outer, out = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)
def loss():
    h = torch.zeros(4, 16)
    for _ in range(9):
        h = torch.tanh(inner(torch.randn(4, 8)) + outer(h))
    return 1e-7 * out(h).mean()
train(loss, [p for layer in (inner, outer, out) for p in layer.parameters()], steps=1)
""",
    "two terms of a loss through normalized layers, of which one weighs little at first": """
layers = [[nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()] for _ in range(4)]
net, x = nn.Sequential(*[each for layer in layers for each in layer], nn.Linear(8, 3)), torch.randn(16, 8)
def loss():
    close = net(x + 0.1 * torch.randn(16, 8)).softmax(1).square().mean()
    return nn.functional.cross_entropy(net(x), torch.arange(16) % 3) + 1e-4 * close
train(loss, net.parameters(), steps=3)
""",
    "a running average of what one layer gives, nearly learnt": """
m = nn.Linear(8, 8)
def loss():
    state = torch.zeros(4, 8)
    for _ in range(20):
        state = 0.65 * state + 0.35 * torch.tanh(m(torch.randn(4, 8)))
    return (1e-5 * state).mean()
train(loss, m.parameters(), steps=1)
""",
    "many heads that attention chooses from, in small units": """
heads, x = [nn.Linear(8, 1) for _ in range(16)], torch.randn(4, 8)
def loss():
    weights = torch.cat([head(x) for head in heads], 1).softmax(1)
    return 1e-8 * (weights * torch.randn(4, 16)).sum()
train(loss, [p for head in heads for p in head.parameters()], steps=1)
""",
    "a gradient scaler that begins too high": """
m = nn.Linear(4, 4)
optimizer = torch.optim.SGD(m.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
for _ in range(16):
    optimizer.zero_grad()
    scaler.scale(100 * m(torch.randn(8, 4)).pow(2).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "a recurrent cell in its first step": """
cell, out = nn.RNNCell(4, 8), nn.Linear(8, 1)
parameters = [*cell.parameters(), *out.parameters()]
train(lambda: out(cell(torch.randn(5, 4), torch.zeros(5, 8))).pow(2).mean(), parameters, steps=1)
""",
    "one factor that begins at zero": """
base, a, b = nn.Linear(4, 4), nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.zeros(2, 4))
x = torch.randn(5, 4)
train(lambda: (base(x) + x @ a @ b).pow(2).mean(), [*base.parameters(), a, b], steps=1)
""",
    "a hinge that is satisfied in the end": """
m = nn.Linear(2, 1)
x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
y = torch.tensor([[1.0], [-1.0]])
def loss():
    return 100 * (1 - y * m(x)).clamp(min=0).mean()
train(loss, m.parameters(), steps=8)
""",
    "a causal mask of -Inf": """
m = nn.Linear(4, 4)
x, future = torch.randn(2, 3, 4), torch.ones(3, 3).triu(1).bool()
def loss():
    scores = (m(x) @ x.transpose(1, 2)).masked_fill(future, float("-inf"))
    return (scores.softmax(-1) @ x).pow(2).mean() + scores.log_softmax(-1).masked_fill(future, 0.0).mean()
train(loss, m.parameters())
""",
    "a logarithm whose input is masked": """
m = nn.Linear(4, 4)
def loss():
    y = torch.relu(m(torch.randn(5, 4)))
    safe = torch.where(y > 0, y, torch.ones(()))
    return torch.where(y > 0, safe.log(), torch.zeros(())).sum()
train(loss, m.parameters())
""",
}


@pytest.mark.parametrize("program", HEALTHY.values(), ids=HEALTHY)
def test_suspicious_but_correct_programs_have_no_findings(program: str, tmp_path: Path) -> None:
    assert alarms(tmp_path, program) == []


@pytest.mark.skipif(not SHOWS_SLOTS, reason="what compiled code saved cannot be read on this torch")
def test_nan_of_compiled_code_is_reported_with_the_line_inside_of_it(tmp_path: Path) -> None:
    program = """
w = nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
@torch.compile(backend="aot_eager")
def unit(v):
    square = v.square().sum(-1, keepdim=True)
    return v / (square.sqrt() + 1e-8)  # here
train(lambda: (unit(w) - 1).square().sum(), [w], steps=1)
"""
    (finding,) = alarms(tmp_path, program)
    assert (finding.cause, finding.op) == ("nan_from_op", "CompiledFunctionBackward")
    assert finding.location is not None
    assert finding.location.line == guilty_line(program)
    assert "compiled code (aten.div.Tensor)" in finding.message


def test_nan_is_reported_with_the_values_that_made_it_and_the_call_that_hid_it(tmp_path: Path) -> None:
    program = """
w = nn.Parameter(torch.tensor([0.0, 2.0]))
train(lambda: torch.where(w > 0, w.log(), torch.zeros(2)).sum(), [w], steps=1)
"""
    (finding,) = alarms(tmp_path, program)
    assert "log() of 2 values from 0 to 2 (1 of them 0) returns" in finding.message
    assert "where() hides that in forward" in finding.message
    assert finding.path == ("LogBackward0", "w")
    assert finding.evidence["operand_0_zeros"] == 1


CHOICES = {
    "a mask that chooses none": (
        "getitem() at line {above} chose none",
        """
m, x, known = nn.Linear(3, 1), torch.randn(4, 6, 3), torch.ones(4, 6, 1, dtype=torch.bool)
known[2] = False
i, loss_of = iter(range(4)), nn.functional.cross_entropy
def loss():
    n = next(i)
    chosen = m(x[n]).square()[known[n]]
    return chosen.mean()  # here
""",
        ("chosen.mean()", "chosen.sum() / max(1, chosen.numel())"),
    ),
    "data that are used up": (
        "getitem() at line {above} chose none",
        """
m, x, y = nn.Linear(3, 2), torch.randn(12, 3), torch.randint(0, 2, (12,))
i, loss_of = iter(range(4)), nn.functional.cross_entropy
def loss():
    n = 6 * next(i)
    bx, by = x[n:n + 6], y[n:n + 6]
    return loss_of(m(bx), by)  # here
""",
        ("loss_of(m(bx), by)", 'F.cross_entropy(m(bx), by, reduction="sum") / max(1, len(bx))'),
    ),
    "targets that are all ignored": (
        "all its targets are -1, which is its ignore_index",
        """
m, x, y = nn.Linear(3, 2), torch.randn(4, 6, 3), torch.randint(0, 2, (4, 6))
y[2] = -1
i, loss_of = iter(range(4)), nn.functional.cross_entropy
def loss():
    n = next(i)
    return loss_of(m(x[n]), y[n], ignore_index=-1)  # here
""",
        (
            "loss_of(m(x[n]), y[n], ignore_index=-1)",
            'loss_of(m(x[n]), y[n], ignore_index=-1, reduction="sum") / (y[n] != -1).sum().clamp(min=1)',
        ),
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_mean_of_no_values_is_told_as_such_and_its_advice_cures(name: str, tmp_path: Path) -> None:
    why, program, (old, new) = CHOICES[name]
    program += "train(loss, m.parameters())\n"
    (finding,) = alarms(tmp_path, program)
    line = guilty_line(program)
    assert (finding.cause, finding.location and finding.location.line) == ("nan_from_op", line)
    assert why.format(above=line - 1) in (finding.why or "")
    assert alarms(tmp_path, program.replace(old, new)) == []


SCALINGS = """
costs, scale = torch.tensor([[0.0, 150.0], [60.0, 60.0]]), torch.ones((), requires_grad=True)
def loss():
    kernel = torch.exp(-scale * costs / {temperature})  # here
    factor = 1 / kernel.sum(0)
    return (factor * factor * kernel).sum()
train(loss, [scale], steps=1)
"""


def test_a_kernel_that_underflows_is_told_where_it_is_computed(tmp_path: Path) -> None:
    program = SCALINGS.format(temperature=1)
    (finding,) = alarms(tmp_path, program)
    assert (finding.cause, finding.location and finding.location.line) == ("overflow", guilty_line(program))
    assert "underflows to 0 for 1, and what is divided by sums of the rest" in finding.message
    assert alarms(tmp_path, SCALINGS.format(temperature=10)) == []


def test_a_gradient_that_overflows_behind_sound_values_is_told_as_such(tmp_path: Path) -> None:
    program = """
x = torch.tensor([1e-10], requires_grad=True)
train(lambda: (x * 1e20 * 1e20).sum(), [x])  # here
"""
    (finding,) = alarms(tmp_path, program)
    assert (finding.cause, "the gradient of mul() of" in finding.message) == ("overflow", True)


def test_nan_of_a_logsumexp_over_infinity_is_told_there(tmp_path: Path) -> None:
    program = """
moves, scores = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.randn(5, 3))
def loss_of():
    first = torch.full((3,), {start})
    first[0] = 0.0
    table = torch.full((3, 3), {start}).index_put((torch.arange(3), torch.arange(3)), moves)
    table = table.index_put((torch.arange(2), torch.arange(1, 3)), moves[:2])
    state = first + scores[0]
    for step in range(1, 5):
        state = torch.logsumexp(state[:, None] + table, 0) + scores[step]  # here
    return -state[-1]
train(loss_of, [moves, scores], steps=1)
"""
    (found,) = alarms(tmp_path, program.format(start='float("-inf")'))
    assert found.cause == "nan_from_op"
    assert found.location is not None and found.location.line == guilty_line(program)
    assert "-1e9" in (found.fix or "")
    assert not alarms(tmp_path, program.format(start="-1e9"))


TURNED = """
def mlp(*sizes):
    pairs = zip(sizes, sizes[1:])
    return nn.Sequential(*(layer for a, b in pairs for layer in (nn.Linear(a, b), nn.LeakyReLU(0.1))))
turn, out = mlp(3, 24, 48), nn.Linear(48, 9)
nn.init.zeros_(out.weight)
out.bias.data.copy_(torch.eye(3).flatten())
point, head = mlp(3, 32, 64), nn.Sequential(mlp(64, 32), nn.Linear(32, 4))
parts = nn.ModuleList([turn, out, point, head])
optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3)
for step in range(12):
    y = torch.randint(0, 4, (48,))
    x = 0.3 * torch.randn(48, 20, 3) + torch.eye(4, 3)[y][:, None]
    m = out(turn(x).amax(1)).view(-1, 3, 3)
    loss = nn.functional.cross_entropy(head(point(x @ m).amax(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_network_that_begins_as_the_identity_opens_with_the_first_steps(tmp_path: Path) -> None:
    assert not alarms(tmp_path, TURNED)
