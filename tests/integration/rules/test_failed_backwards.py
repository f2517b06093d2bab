"""A saved tensor that was changed or freed is explained by the line that did it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules import RULES
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run

HEAD = "import torch\nfrom torch import nn\n\n"

SLICE_OF_A_SAVED_RESULT = """
w = torch.randn(3, 4, requires_grad=True)
h = w.tanh()
part = h.view(-1)[:6].view(2, 3)
part.mul_(0.5)  # here
h.sum().backward()
"""
BUFFER_REUSED_BY_EVERY_STEP = """
scale, total = torch.ones(4, requires_grad=True), 0
state = torch.zeros(4)
for _ in range(3):
    total = total + (scale * state).sum()
    state.add_(1)  # here
total.backward()
"""
ACTOR_AND_CRITIC = """
actor, critic = nn.Linear(3, 2), nn.Linear(2, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
action = actor(torch.randn(4, 3))
value = critic(action)
critic(action.detach()).sum().backward()
optimizer.step()  # here
(-value.mean()).backward()
"""
LAZY_CRITIC = """
actor, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.LazyLinear(1))
critic(torch.zeros(1, 2))
optimizer = torch.optim.Adam(critic.parameters(), lr=0.1)
action = actor(torch.randn(4, 3))
value = critic(action)
critic(action.detach()).sum().backward()
optimizer.step()  # here
(-value.mean()).backward()
"""
CRITIC_THAT_GREW = """
actor, critic = nn.Linear(3, 2), nn.Linear(2, 1)
critic(torch.zeros(1, 2))
critic.weight.data = torch.cat([critic.weight.data, torch.zeros(1, 2)])
critic.bias.data = torch.zeros(2)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
action = actor(torch.randn(4, 3))
value = critic(action)
critic(action.detach()).sum().backward()
optimizer.step()  # here
(-value.mean()).backward()
"""
GENERATOR_NOT_DETACHED = """
generator, critic = nn.Linear(3, 2), nn.Linear(2, 1)
fake = generator(torch.randn(4, 3)).tanh()
critic(fake).mean().backward()  # here
critic(fake).mean().neg().backward()
"""
FEATURES_OF_THE_WHOLE_EPOCH = """
encoder, head = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1)
features = encoder(torch.randn(8, 4))  # here
for batch in torch.arange(8).split(4):
    head(features[batch]).square().mean().backward()
"""
TABLE_IN_A_CACHE = """
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.known = nn.Linear(1, 3), {}

    def forward(self, n):
        if n not in self.known:
            self.known[n] = self.layer(torch.arange(n)[:, None] / n).tanh()  # here
        return self.known[n]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = Table(), nn.Linear(3, 1)

    def forward(self, x):
        return self.out(x + self.table(len(x)))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for n in [4, 5, 4]:
    loss = net(torch.randn(n, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
"""
LOSSES_IN_A_LIST = """
shared = torch.randn(3, requires_grad=True).exp()
for loss in [shared.sum(), shared.prod()]:
    loss.backward()  # here
"""
PENALTY_WITHOUT_CREATE_GRAPH = """
critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
points = torch.randn(4, 2, requires_grad=True)
score = critic(points)
(slope,) = torch.autograd.grad(score.sum(), points)  # here
(score.mean() + (slope.norm(dim=1) - 1).square().mean()).backward()
"""
GRADIENT_THAT_IS_ONLY_PRINTED = """
critic = nn.Linear(2, 1)
points = torch.randn(4, 2, requires_grad=True)
score = critic(points).tanh()
(slope,) = torch.autograd.grad(score.sum(), points)  # here
print(slope.norm())
score.mean().backward()
"""
STATE_IN_A_VARIABLE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(2, 3)

    def forward(self, x, state):
        return self.cell(x, state)

model, state = Model(), torch.zeros(1, 3)
for _ in range(3):
    state = model(torch.randn(1, 2), state)  # here
    state.sum().backward()
"""
STATE_IN_A_MODULE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.RNNCell(2, 3), torch.zeros(1, 3)

    def forward(self, x):
        self.state = self.cell(x, self.state)  # here
        return self.state.sum()

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(1, 2)).backward(retain_graph=True)
    optimizer.step()
"""
AVERAGE_MOVED_BEHIND_BACKWARD = """
policy, baseline = nn.Linear(4, 2), 0.0
for _ in range(3):
    reward = policy(torch.randn(5, 4)).tanh().sum(1)
    (reward - baseline).square().mean().backward()
    baseline = 0.9 * baseline + 0.1 * reward.mean()  # here
"""
ROWS_OF_A_TENSOR = """
hidden = torch.randn(4, 3, requires_grad=True).tanh()
for number, row in enumerate(hidden):
    row *= number  # here
hidden.sum().backward()
"""
VIEW_MADE_UNDER_NO_GRAD = """
hidden = torch.randn(4, 3, requires_grad=True).tanh()
with torch.no_grad():
    first = hidden[0]
first.mul_(2)  # here
hidden.sum().backward()
"""
ROW_OF_AN_EMBEDDING = """
embedding = nn.Embedding(4, 2)
embedding.weight[0] = 0.0  # here
embedding(torch.tensor([1])).sum().backward()
"""
WEIGHTS_CLAMPED_BEFORE_BACKWARD = """
net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
loss = net(torch.randn(2, 4)).square().mean()
for parameter in net.parameters():
    parameter.data.clamp_(-0.1, 0.1)  # here
loss.backward()
"""
WEIGHTS_SWAPPED_BEFORE_BACKWARD = """
weight = torch.randn(3, requires_grad=True)
loss = weight.exp().square().sum()
(weight * torch.randn(3)).sum().backward()
loss = (weight * weight).sum()
weight.data = torch.zeros(3)  # here
loss.backward()
"""
CHANGES_THAT_ARE_FINE = """
weight = torch.randn(4, 3, requires_grad=True)
hidden = weight * 2
hidden[0].mul_(3)
hidden.narrow(0, 1, 2).add_(1)
hidden.relu_().sum().backward()
with torch.no_grad():
    weight -= 0.1 * weight.grad
    weight[0] = 0
weight.data.clamp_(-1, 1)
(weight * 2).sum().backward()
"""


def findings_in(program: str, folder: Path) -> tuple[Finding, ...]:
    script = folder / "train.py"
    script.write_text(HEAD + program)
    capture = run(
        find_script(str(script)), (), RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
    ).capture
    return tuple(finding for finding in check_case(Case(capture), RULES).findings if finding.is_alarm)


def marked_line(program: str) -> int:
    return next(number for number, line in enumerate((HEAD + program).splitlines(), 1) if line.endswith("# here"))


@pytest.mark.parametrize(
    ("cause", "program"),
    [
        ("inplace_modified_saved", SLICE_OF_A_SAVED_RESULT),
        ("inplace_modified_saved", BUFFER_REUSED_BY_EVERY_STEP),
        ("optimizer_step_before_backward", ACTOR_AND_CRITIC),
        ("optimizer_step_before_backward", LAZY_CRITIC),
        ("optimizer_step_before_backward", CRITIC_THAT_GREW),
        ("graph_freed", GENERATOR_NOT_DETACHED),
        ("graph_freed", FEATURES_OF_THE_WHOLE_EPOCH),
        ("graph_freed", LOSSES_IN_A_LIST),
        ("graph_freed", TABLE_IN_A_CACHE),
        ("create_graph_missing", PENALTY_WITHOUT_CREATE_GRAPH),
        ("graph_freed", GRADIENT_THAT_IS_ONLY_PRINTED),
        ("state_not_detached", STATE_IN_A_VARIABLE),
        ("state_not_detached", STATE_IN_A_MODULE),
        ("state_not_detached", AVERAGE_MOVED_BEHIND_BACKWARD),
        ("view_inplace", ROWS_OF_A_TENSOR),
        ("view_inplace", VIEW_MADE_UNDER_NO_GRAD),
        ("data_access", WEIGHTS_CLAMPED_BEFORE_BACKWARD),
        ("data_access", WEIGHTS_SWAPPED_BEFORE_BACKWARD),
        ("leaf_inplace", ROW_OF_AN_EMBEDDING),
    ],
)
def test_the_line_that_changed_or_freed_a_saved_tensor_is_named(cause: str, program: str, tmp_path: Path) -> None:
    finding = findings_in(program, tmp_path)[0]
    assert finding.location is not None
    assert (finding.cause, finding.location.line) == (cause, marked_line(program))


def test_in_place_changes_that_autograd_records_are_no_findings(tmp_path: Path) -> None:
    assert findings_in(CHANGES_THAT_ARE_FINE, tmp_path) == ()


def test_a_change_through_views_is_reported_from_saving_to_backward(tmp_path: Path) -> None:
    (finding,) = findings_in(SLICE_OF_A_SAVED_RESULT, tmp_path)
    assert "through 3 views" in finding.message
    assert finding.op == "TanhBackward0"
    assert finding.tensors == ("w",)
    assert finding.changed_line == "part = part.mul(0.5)"
    assert [station.split(" at ")[0] for station in finding.path] == [
        "tanh saves h", "view makes a view", "indexing makes a view", "view makes a view", "mul_ changes it",
        "backward needs it",
    ]  # fmt: skip


def test_a_result_without_a_name_is_described_once_by_the_call_that_made_and_saved_it(tmp_path: Path) -> None:
    program = """
w = torch.randn(3, requires_grad=True)
h = [act(w) for act in (torch.tanh,)]
h.pop().view(3).mul_(2).sum().backward()
"""
    (finding,) = findings_in(program, tmp_path)
    assert finding.path[0] == "tanh saves its result at line 6"


@pytest.mark.parametrize(
    "change", ["nn.init.zeros_(h.detach())", "nn.functional.relu_(h)", "torch._foreach_mul_([h], 2)"]
)
def test_no_line_is_proposed_for_a_change_by_what_is_no_method_of_the_tensor(change: str, tmp_path: Path) -> None:
    (finding,) = findings_in(f"h = torch.randn(3, requires_grad=True).exp()\n{change}\nh.sum().backward()\n", tmp_path)
    assert (finding.cause, finding.changed_line) == ("inplace_modified_saved", None)


def test_views_whose_gradient_torch_refuses_to_show_do_not_stop_the_check(tmp_path: Path) -> None:
    program = "h = torch.randn(3, requires_grad=True).exp()\nfirst, *_ = h.unbind()\nh[0] = 3\nh.sum().backward()\n"
    (finding,) = findings_in(program, tmp_path)
    assert finding.cause == "inplace_modified_saved"


def test_who_assigns_parts_of_a_saved_tensor_is_told_to_stack_them(tmp_path: Path) -> None:
    program = (
        "step, states = nn.Linear(3, 3), torch.zeros(4, 3)\n"
        "for t in range(3):\n    states[t + 1] = step(states[t]).tanh()\n"
        "states.sum().backward()\n"
    )
    finding = findings_in(program, tmp_path)[0]
    assert finding.cause == "inplace_modified_saved"
    assert "torch.stack() of a list of the parts" in finding.fix


@pytest.mark.parametrize(("kept", "word"), [("log_p", "detach()"), ("net(x)", "again in every round")])
def test_old_values_that_new_ones_are_compared_with_are_to_be_detached(kept: str, word: str, tmp_path: Path) -> None:
    compared = "log_p - old[part]" if kept == "log_p" else "2 * old[part][:, 0]"
    program = f"""
x, action, net = torch.randn(8, 4), torch.randint(0, 3, (8,)), nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
log_p = net(x).log_softmax(1)[torch.arange(8), action]
old = {kept}  # here
for part in torch.arange(8).split(4):
    log_p = net(x[part]).log_softmax(1)[torch.arange(4), action[part]]
    loss = ({compared}).exp().mean()
    optimizer.zero_grad()
    loss.backward()
"""
    finding = findings_in(program, tmp_path)[0]
    assert finding.cause == "graph_freed"
    assert word in finding.fix


EQUILIBRIUM = """
layer, head = nn.Linear(4, 4), nn.Linear(4, 1)
def iterate(f, start, turns=9):
    for _ in range(turns):
        start = f(start)
    return start
def solve(x):
    with torch.no_grad():
        z = iterate(lambda z: 0.5 * layer(z).tanh() + x, torch.zeros_like(x))
    z = 0.5 * layer(z).tanh() + x
    z0 = z.detach().requires_grad_()
    f0 = 0.5 * layer(z0).tanh() + x
    def hook(grad):
        return iterate(lambda y: torch.autograd.grad(f0, z0, y)[0] + grad, grad)  # here
    z.register_hook(hook)
    return z
for step in range(3):
    head(solve(torch.randn(8, 4))).square().mean().backward()
"""
LOOP_IN_THE_HOOK = EQUILIBRIUM.replace(
    "        return iterate(lambda y: torch.autograd.grad(f0, z0, y)[0] + grad, grad)  # here\n",
    "        y = grad\n        for _ in range(9):\n            y = torch.autograd.grad(f0, z0, y)[0] + grad  # here\n"
    "        return y\n",
)
FREED_IN_HOOKS = {"a function that a solver calls": EQUILIBRIUM, "a loop": LOOP_IN_THE_HOOK}


@pytest.mark.parametrize("shape", FREED_IN_HOOKS)
def test_a_hook_that_goes_through_one_graph_in_each_turn_is_told_at_its_line(shape: str, tmp_path: Path) -> None:
    program = FREED_IN_HOOKS[shape]
    (finding,) = findings_in(program, tmp_path)
    assert (finding.cause, finding.location and finding.location.line) == ("graph_freed", marked_line(program))
    assert "retain_graph=True" in finding.fix
    assert findings_in(program.replace("z0, y)", "z0, y, retain_graph=True)"), tmp_path) == ()


def test_a_hook_without_a_loop_whose_graph_the_step_before_has_freed_is_not_told_of_turns(tmp_path: Path) -> None:
    program = """
layer, start = nn.Linear(4, 1), torch.ones(4, requires_grad=True)
energy = start.square().sum()
def hook(grad):
    return grad + torch.autograd.grad(energy, start)[0].mean()
for step in range(3):
    out = layer(torch.randn(8, 4))
    out.register_hook(hook)
    out.square().mean().backward()
"""
    found = findings_in(program, tmp_path)
    assert found
    assert all("all turns but the last" not in each.fix for each in found)


def test_a_hook_that_says_that_it_frees_the_graph_is_told_at_its_line(tmp_path: Path) -> None:
    program = LOOP_IN_THE_HOOK.replace("(f0, z0, y)", "(f0, z0, y, retain_graph=False)")
    (finding,) = findings_in(program, tmp_path)
    assert (finding.cause, finding.location and finding.location.line) == ("graph_freed", marked_line(program))
