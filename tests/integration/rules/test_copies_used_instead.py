"""Losses that a copy computes, where the trained model was meant, and copies that are used as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

AVERAGE = """    with torch.no_grad():
        for old, new in zip(average.parameters(), net.parameters()):
            old.mul_(0.9).add_(new, alpha=0.1)
"""

FAULTS = {
    "a generator's loss with the average": """
net, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
average = copy.deepcopy(net).requires_grad_(False)
optimizer, other = torch.optim.Adam(net.parameters()), torch.optim.Adam(critic.parameters())

def sample(n):
    return average(torch.randn(n, 3))  # HERE

for step in range(4):
    fake = net(torch.randn(8, 3)).detach()
    loss = F.softplus(-critic(torch.randn(8, 2))).mean() + F.softplus(critic(fake)).mean()
    other.zero_grad()
    loss.backward()
    other.step()
    loss = F.softplus(-critic(sample(8))).mean()"""
    + TRAIN + AVERAGE,
    "an actor's loss with the target actor, which is not frozen": """
class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, s):
        return torch.tanh(self.b(F.relu(self.a(s))))

actor, critic = Actor(), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
target = Actor()
target.load_state_dict(actor.state_dict())
of_actor = torch.optim.Adam(actor.parameters())
optimizer = torch.optim.Adam(critic.parameters())
for step in range(4):
    s = torch.randn(8, 4)
    with torch.no_grad():
        a = actor(s) + 0.1 * torch.randn(8, 2)
        goal = s.sum(1, keepdim=True) - a.square().sum(1, keepdim=True)
    loss = F.mse_loss(critic(torch.cat([s, a], 1)), goal)"""
    + TRAIN + """    loss = -critic(torch.cat([s, target(s)], 1)).mean()  # HERE
    of_actor.zero_grad()
    loss.backward()
    of_actor.step()
    with torch.no_grad():
        for old, new in zip(target.parameters(), actor.parameters()):
            old.lerp_(new, 0.1)
""",
    "a student of plain tensors is called as its average": """
net = [nn.Parameter(0.3 * torch.randn(6, 4)), nn.Parameter(torch.zeros(6))]
old = [each.detach().clone() for each in net]
head = nn.Linear(6, 2)
optimizer = torch.optim.SGD([*net, *head.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    loss = (head(torch.tanh(F.linear(x, *old))) - x[:, :2]).square().mean()  # HERE"""
    + TRAIN + """    for o, n in zip(old, net):
        o.copy_(0.9 * o + 0.1 * n.detach())
""",
    "a meta step with copies made for each task": """
net = nn.Linear(3, 1)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    loss = 0
    for task in range(2):
        x, w = torch.randn(8, 3), torch.randn(3, 1)
        fast = copy.deepcopy(net)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        (fast(x) - x @ w).square().mean().backward()
        inner.step()
        loss = loss + (fast(x) - x @ w).square().mean()  # HERE"""
    + TRAIN,
    "a meta step with copies that are changed by hand": """
net = nn.Linear(3, 1)
optimizer = torch.optim.Adam(net.parameters())
def adapted(x, y):
    fast = copy.deepcopy(net)  # HERE
    weights = list(fast.parameters())
    grads = torch.autograd.grad((fast(x) - y).square().mean(), weights)
    with torch.no_grad():
        for p, g in zip(weights, grads):
            p -= 0.1 * g
    return fast
for step in range(4):
    x, w = torch.randn(8, 3), torch.randn(3, 1)
    loss = (adapted(x, x @ w)(x) - x @ w).square().mean()"""
    + TRAIN,
    "the stacked parameters of an ensemble, which no optimizer has": """
nets = [nn.Linear(3, 1) for _ in range(3)]
params, buffers = torch.func.stack_module_state(nets)  # HERE
shell = copy.deepcopy(nets[0]).to("meta")
optimizer = torch.optim.Adam([p for net in nets for p in net.parameters()])
def one(params, x):
    return torch.func.functional_call(shell, params, (x,))
for step in range(4):
    x = torch.randn(8, 3)
    loss = (torch.func.vmap(one, in_dims=(0, None))(params, x) - x.sum(1, keepdim=True)).square().mean()"""
    + TRAIN,
    "a copy for each task, adapted by weights that are functions of it": """
net = nn.Linear(3, 1)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    optimizer.zero_grad()
    x, w = torch.randn(8, 3), torch.randn(3, 1)
    fast = dict(copy.deepcopy(net).named_parameters())  # HERE
    loss = (torch.func.functional_call(net, fast, (x,)) - x @ w).square().mean()
    moves = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    fast = {name: p - 0.1 * move for (name, p), move in zip(fast.items(), moves)}
    (torch.func.functional_call(net, fast, (x,)) - x @ w).square().mean().backward()
    optimizer.step()
""",
}  # fmt: skip

SPEC = """
from dataclasses import asdict, astuple, dataclass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.lift = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 3)
    def forward(self, x):
        h = torch.tanh(self.body(x))
        return h, self.head(h)
@dataclass
class Spec:
    lift: nn.Module
    weight: float = 0.3
class Criterion:
    def __init__(self, lift, weight):
        self.lift, self.weight = lift, weight
    def __call__(self, out, x):
        return F.mse_loss(out[1], x[:, :2]) + self.weight * F.mse_loss(self.lift(out[0]), x[:, 1:])
net = Net()
spec = Spec(net.lift)
MADE
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    x = torch.randn(16, 4)
    loss = criterion(net(x), x)""" + TRAIN  # fmt: skip
FAULTS |= {
    "asdict() of a configuration with a module": SPEC.replace("MADE", "criterion = Criterion(**asdict(spec))  # HERE"),
    "astuple() of it": SPEC.replace("MADE", "criterion = Criterion(*astuple(spec))  # HERE"),
    "a deep copy of it": SPEC.replace("MADE", "own = copy.deepcopy(spec)  # HERE\ncriterion = Criterion(**vars(own))"),
}

HEALTHY = {
    "the stacked parameters of an ensemble, which the optimizer has": """
nets = [nn.Linear(3, 1) for _ in range(3)]
params, buffers = torch.func.stack_module_state(nets)
shell = copy.deepcopy(nets[0]).to("meta")
optimizer = torch.optim.Adam(params.values())
def one(params, x):
    return torch.func.functional_call(shell, params, (x,))
for step in range(4):
    x = torch.randn(8, 3)
    loss = (torch.func.vmap(one, in_dims=(0, None))(params, x) - x.sum(1, keepdim=True)).square().mean()"""
    + TRAIN,
    "parameters that are stacked anew at each step": """
nets = [nn.Linear(3, 1) for _ in range(3)]
shell = copy.deepcopy(nets[0])
optimizer = torch.optim.Adam([p for net in nets for p in net.parameters()])
def one(params, x):
    return torch.func.functional_call(shell, params, (x,))
for step in range(4):
    x = torch.randn(8, 3)
    params = {k: torch.stack([dict(net.named_parameters())[k] for net in nets]) for k in ("weight", "bias")}
    loss = (torch.func.vmap(one, in_dims=(0, None))(params, x) - x.sum(1, keepdim=True)).square().mean()"""
    + TRAIN,
    "the vector of a network whose values are given back": """
net = nn.Linear(3, 2)
flat = nn.utils.parameters_to_vector(net.parameters()).detach().requires_grad_()
optimizer = torch.optim.SGD([flat], lr=0.1)
for step in range(4):
    x = torch.randn(8, 3)
    loss = (F.linear(x, flat[:6].view(2, 3), flat[6:]) - x[:, :2]).square().mean()"""
    + TRAIN + """
nn.utils.vector_to_parameters(flat, net.parameters())
""",
    "an average for evaluation": """
net = nn.Linear(3, 1)
average = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    x = torch.randn(8, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()"""
    + TRAIN + AVERAGE + "    print((average(x) - x.sum(1, keepdim=True)).square().mean().item())\n",
    "a target beside an online model": """
net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
predictor, average = nn.Linear(4, 4), copy.deepcopy(net)
optimizer = torch.optim.Adam([*net.parameters(), *predictor.parameters()])
for step in range(4):
    x = torch.randn(16, 5)
    p = F.normalize(predictor(net(x + 0.1 * torch.randn(16, 5))), dim=1)
    with torch.no_grad():
        z = F.normalize(average(x + 0.1 * torch.randn(16, 5)), dim=1)
    loss = 2 - 2 * (p * z).sum(1).mean()"""
    + TRAIN + AVERAGE,
    "an actor trained at every second step, a target actor in the critic's loss": """
net, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
average, old_critic = copy.deepcopy(net).requires_grad_(False), copy.deepcopy(critic).requires_grad_(False)
of_actor = torch.optim.Adam(net.parameters())
optimizer = torch.optim.Adam(critic.parameters())
for step in range(6):
    s, a, following = torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 4)
    goal = s[:, :1] + 0.9 * old_critic(torch.cat([following, average(following)], 1))
    loss = F.mse_loss(critic(torch.cat([s, a], 1)), goal)"""
    + TRAIN + """    if step % 2:
        of_actor.zero_grad()
        (-critic(torch.cat([s, net(s)], 1)).mean()).backward()
        of_actor.step()
""" + AVERAGE,
    "a first-order meta step": """
net = nn.Linear(3, 1)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    optimizer.zero_grad()
    x, w = torch.randn(8, 3), torch.randn(3, 1)
    fast = copy.deepcopy(net)
    inner = torch.optim.SGD(fast.parameters(), lr=0.1)
    (fast(x) - x @ w).square().mean().backward()
    inner.step()
    inner.zero_grad()
    (fast(x) - x @ w).square().mean().backward()
    for p, c in zip(net.parameters(), fast.parameters()):
        p.grad = c.grad.clone()
    optimizer.step()
""",
    "the fields of a configuration, not copied": SPEC.replace("MADE", "criterion = Criterion(**vars(spec))"),
    "the optimizer has what asdict() copied": SPEC.replace(
        "MADE", "criterion = Criterion(**asdict(spec))\nnet.lift = criterion.lift"
    ),
    "a distillation": """
net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
teacher = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    x = torch.randn(16, 5)
    soft = F.log_softmax(net(x + 0.1 * torch.randn(16, 5)), dim=1)
    loss = F.kl_div(soft, F.softmax(teacher(x), dim=1), reduction="batchmean")"""
    + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS)
def test_the_call_of_the_copy_is_the_only_alarm(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, "copy_used_instead", tmp_path)
    assert [each.cause for each in alarms(HEAD + script, tmp_path)] == ["copy_used_instead"]


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_copies_beside_the_trained_model_raise_no_alarm(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []


def test_members_of_an_ensemble_whose_stacked_copies_compute_in_a_long_run(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
from torch.func import functional_call, stack_module_state
members = nn.ModuleList(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2))
params, buffers = stack_module_state(list(members))  # HERE
skeleton = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to("meta")
ensemble = torch.vmap(lambda p, b, x: functional_call(skeleton, (p, b), (x,)), in_dims=(0, 0, None))
optimizer = torch.optim.Adam(members.parameters(), lr=0.01)
for step in range(230):
    x = torch.randn(8, 3)
    loss = (ensemble(params, buffers, x)[..., 0] - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    )
    assert_first_alarm(script, "copy_used_instead", tmp_path)


def test_what_to_use_in_place_of_asdict_is_told(tmp_path: Path) -> None:
    script = HEAD + SPEC.replace("MADE", "criterion = Criterion(**asdict(spec))")
    assert alarms(script, tmp_path)[0].fix.endswith("vars() gives the fields themselves")


PATTERN = """
class Net(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(2))
    def forward(self, x):
        for each in self.layers:
            x = torch.tanh(each(x))
        return x
net = Net(nn.Linear(4, 4))
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    x = torch.randn(16, 4)
    loss = F.mse_loss(net(x), x)""" + TRAIN  # fmt: skip


def test_a_layer_that_is_only_copied_is_said_to_be_used_for_nothing_else(tmp_path: Path) -> None:
    (found,) = alarms(HEAD + PATTERN, tmp_path)
    assert found.cause == "unused_parameter"
    assert "nothing is ever computed from them" in found.message
