"""Gradients that are missing or wrong, in other spellings than those of the examples, and healthy programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

BLOCKS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 8)
        {}
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        x = self.inner(x)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.out(x)

net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    loss = (net(torch.randn(8, 4)) - 1).square().mean()"""
CELLS = """
class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(1, 6), nn.LSTMCell(6, 6)])
        self.out = nn.Linear(6, 1)

    def forward(self, series):
        states = [(torch.zeros(8, 6), torch.zeros(8, 6)) for _ in self.cells]
        outputs = []
        for value in series.unbind(0):
            h = value[:, None]
            for i, cell in enumerate(self.cells):
                states[i] = cell(h, {})  # HERE
                h = states[i][0]
            outputs.append(self.out(h))
        return torch.stack(outputs).squeeze(-1)

def repackage(state):
    return state.detach() if isinstance(state, torch.Tensor) else tuple(repackage(each) for each in state)

net = Forecaster()
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    series = torch.randn(9, 8)
    loss = F.mse_loss(net(series[:-1]), series[1:])"""
ATTACK = """
def attack(x, y):
    moved = x.clone()
    for _ in range(5):
        moved = moved.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(net(moved), y), [moved])
        moved = torch.add({}, gradient.sign(), alpha=0.05)  # HERE
        moved = torch.minimum(torch.maximum(moved, x - 0.2), x + 0.2)
    return moved.detach()

net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(24, 6)
    y = x[:, :3].argmax(1)
    loss = F.cross_entropy(net(attack(x, y)), y)"""
CLIP = """
def clip(model):
    for p in model.parameters():
        p.grad.data.clamp_(-0.1, 0.1)  # HERE

net = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(16, 5)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True).exp())
    optimizer.zero_grad()
    loss.backward()
"""
MICRO = """
net = nn.Sequential(nn.Embedding(30, 8), nn.Flatten(), nn.Linear(40, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)

def batch():
    ids = torch.randint(0, 30, (8, 5))
    return ids, ids[:, 0] % 3

for step in range(4):
    optimizer.zero_grad()
    for {} in range(4):
        ids, labels = batch()
        loss = F.cross_entropy(net(ids), labels{})
        ({}).backward()  # HERE
    optimizer.step()
"""
MAML = """
from torch.func import functional_call
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
rates = [nn.Parameter(torch.full_like(p, 0.05)) for p in net.parameters()]
optimizer = torch.optim.Adam([*net.parameters(), *rates])

def adapt(x, y):
    weights = dict(net.named_parameters())
    for _ in range(2):
        loss = F.mse_loss(functional_call(net, weights, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(weights.values()), {})  # HERE
        weights = {{name: w - rate * g for (name, w), rate, g in zip(weights.items(), rates, grads)}}
    return weights

for step in range(4):
    x = torch.rand(20, 1)
    y = torch.sin(3 * x)
    loss = F.mse_loss(functional_call(net, adapt(x[:10], y[:10]), (x[10:],)), y[10:])"""
AVERAGED = """
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
net, head = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 6)), nn.Linear(6, 2)
average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()])
for step in range(6):
    x = torch.randn(32, 5)
    loss = F.cross_entropy(head({}(x)), (x[:, 0] > x[:, 1]).long())  # HERE"""
POSITIONS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for name, shape in {{"token": (1, 1, 8), "positions": (1, 6, 8)}}.items():
            {}
        self.project, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), self.project(x)], 1)
        return self.head(torch.tanh(x + self.positions)[:, 0] + x.mean(1))

net = Net()
optimizer = torch.optim.AdamW(net.parameters())
for step in range(4):
    x = torch.randn(12, 5, 4)
    loss = F.cross_entropy(net(x), (x.sum((1, 2)) > 0).long())"""
PRODUCT = """
actor, critic = nn.Linear(3, 4), nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
for step in range(5):
    s = torch.randn(12, 3)
    with torch.no_grad():
        a = torch.distributions.Categorical(logits=actor(s)).sample()
    returns = (a == s.argmax(1)).float() + 0.1 * torch.randn(12)
    advantage = returns - critic(s)[:, 0]
    nll = F.cross_entropy(actor(s), a, reduction="none")
    loss = torch.dot(nll, {}) / 12 + advantage.square().mean()  # HERE"""
CODES = """
encoder, decoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 6)), nn.Linear(6, 10)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for step in range(4):
    x = torch.randn(32, 10)
    p = encoder(x).sigmoid()
    hard = torch.where(p < 0.5, 0.0, 1.0)
    code = torch.add({})  # HERE
    loss = F.mse_loss(decoder(code), x)"""
HISTORY = """
class Graph:
    def __init__(self, x):
        self.x = x

    def update(self, x):
        self.x = x{}  # HERE
        return self

first, second, head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *head.parameters()])
for step in range(3):
    graph = Graph(torch.randn(10, 8))
    for layer in (first, second):
        graph = graph.update(torch.relu(layer(graph.x)) + graph.x)
    loss = F.cross_entropy(head(graph.x), torch.randint(0, 2, (10,)))"""
TARGET = """
net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
fixed = copy.deepcopy(net)
optimizer = torch.optim.Adam(net.parameters())

def follow():
    state = {}
    for name, value in net.state_dict().items():
        state[name].lerp_(value, 0.05)  # HERE

for step in range(8):
    s, n = torch.randn(16, 4), torch.randn(16, 4)
    with torch.no_grad():
        wanted = s[:, 0] + 0.98 * fixed(n).amax(1)
    loss = F.smooth_l1_loss(net(s)[torch.arange(16), torch.randint(0, 3, (16,))], wanted)"""
BOUNDED = """
net = nn.Linear(6, 4)
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))
    p = F.softmax(net(x), 1)  # HERE
    loss = {}"""
STEP = """
encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for step in range(3):
    x = torch.randn(8, 6)
    code = torch.heaviside(encoder(x), torch.tensor(1.0))  # HERE
    loss = F.mse_loss(decoder(code), x)"""

PLAYERS = """
made, critic = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6)), nn.Sequential(nn.Linear(6, 8), nn.Tanh())
of_made, of_critic = torch.optim.Adam(made.parameters()), torch.optim.Adam(critic.parameters())

def adversarial(images, is_real):
    scores = critic(images{}).mean(1)  # HERE
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(is_real)))

for step in range(5):
    x = torch.randn(16, 6)
    fake = made(x)
    loss = adversarial(fake.detach(), False) + adversarial(x.flip(1), True)
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    loss = F.l1_loss(fake, x.flip(1)) + 0.1 * adversarial(fake, True)
    of_made.zero_grad()
    loss.backward()
    of_made.step()
"""
BASELINE = """
policy, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()])
for step in range(5):
    s = torch.randn(16, 4)
    choice = torch.distributions.OneHotCategorical(logits=policy(s))
    a = choice.sample()
    returns = (a * s[:, :3]).sum(-1)
    with torch.no_grad():
        baseline = critic(s).flatten()
        advantage = torch.subtract({})  # HERE
    loss = F.smooth_l1_loss(critic(s).flatten(), returns) - choice.log_prob(a).mul(advantage).mean()"""
FOLLOWS = """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.ModuleList([nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2)])

    def both(self, s, a):
        x = torch.cat((s, a), -1)
        return torch.cat([q(x) for q in self.q], -1)

critic = Both()
target = copy.deepcopy(critic)
optimizer = torch.optim.Adam(critic.parameters())
for step in range(6):
    (s, n), (a, b) = torch.randn(2, 32, 4), torch.rand(2, 32, 1)
    wanted = torch.randn(32, 1) + 0.99 * target.both(n, b).min(-1, keepdim=True).values{}  # HERE
    loss = (critic.both(s, a) - wanted).pow(2).mean()"""
FOLLOW = """    with torch.no_grad():
        for old, new in zip(target.parameters(), critic.parameters()):
            old.copy_(0.995 * old + 0.005 * new)
"""
TENSORS = """
first, last = (torch.randn(*shape).mul_(0.3).requires_grad_() for shape in ((5, 12), (12, 1)))
for step in range(6):
    x = torch.randn(32, 5)
    loss = F.mse_loss(torch.relu(x @ first) @ last, x.sum(1, keepdim=True))
    loss.backward()
    with torch.no_grad():
        torch._foreach_add_([first, last], [first.grad, last.grad], alpha={})  # HERE
    first.grad = last.grad = None
"""
STACKED = """
encoder, decoder = nn.Linear(8, 3), nn.Linear(3, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for step in range(4):
    x = torch.randn(20, 8)
    z = encoder(x)
    terms = {{"error": F.mse_loss(decoder(z), x), "size": 1e-2 * z.pow(2).mean()}}
    terms["loss"] = {}
    loss = torch.stack(tuple(terms.values())).sum()  # HERE"""
UNITS = """
net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
with torch.no_grad():
    net[0].weight.{}
    net[0].bias.zero_()
    net[2].weight.fill_(0.1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(10):
    x = torch.randn(64, 5)
    loss = F.mse_loss(net(x), x.prod(1, keepdim=True))"""

FAULTS = {
    "layers in partial objects": (
        "not_registered",
        """
from functools import partial
def residual(layer, x):
    return x + layer(x)
"""
        + BLOCKS.format("self.layers = [partial(residual, nn.Linear(8, 8)) for _ in range(2)]  # HERE") + TRAIN,
    ),
    "the bound method of a layer": (
        "not_registered", BLOCKS.format("self.layers = (nn.Linear(8, 8).forward,)  # HERE") + TRAIN
    ),
    "a layer in a closure": (
        "not_registered",
        BLOCKS.format("hidden = nn.Linear(8, 8)  # HERE\n        self.layers = [lambda x: hidden(x).relu()]") + TRAIN,
    ),
    "layers in an ordered dict": (
        "not_registered",
        """
from collections import OrderedDict
class Table(OrderedDict):
    def __iter__(self):
        return iter(self.values())
"""
        + BLOCKS.format("self.layers = Table((i, nn.Linear(8, 8)) for i in range(2))  # HERE") + TRAIN,
    ),
    "states of two cells, with a loss at each step": (
        "state_cut_each_step", CELLS.format("repackage(states[i])") + TRAIN
    ),
    "an attack that begins again": ("steps_from_the_start", ATTACK.format("x") + TRAIN),
    "a clamp of .grad.data after the step": ("clip_misplaced", CLIP + "    optimizer.step()\n    clip(net)\n"),
    "small batches of one step": ("accumulation_undivided", MICRO.format("micro_step", "", "loss")),
    "learned rates of a meta step": ("create_graph_missing", MAML.format("retain_graph=True") + TRAIN),
    "the average in place of the model": ("copy_used_instead", AVERAGED.format("average") + TRAIN),
    "tensors set by a loop over names": (
        "plain_tensor",
        POSITIONS.format("setattr(self, name, nn.init.trunc_normal_(torch.empty(shape), std=0.02))  # HERE") + TRAIN,
    ),
    "an advantage in a dot product": ("gradient_into_target", PRODUCT.format("advantage") + TRAIN),
    "a straight-through of two constants": (
        "straight_through_reversed", CODES.format("hard, torch.sub(p, hard).detach()") + TRAIN
    ),
    "a state kept by .data": ("data_access", HISTORY.format(".data") + TRAIN),
    "a target network of which a copy follows": (
        "target_never_updated", TARGET.format("copy.deepcopy(fixed.state_dict())") + TRAIN + "    follow()\n"
    ),
    "probabilities in their bounds": (
        "normalized_twice", BOUNDED.format("F.cross_entropy(p.clamp(1e-6, 1.0), y)") + TRAIN
    ),
    "a term of a generator behind the cut of its critic": ("term_for_nobody", PLAYERS.format(".detach()")),
    "an advantage by another call of the critic": ("advantage_reversed", BASELINE.format("baseline, returns") + TRAIN),
    "a method that a target and its model share": ("gradient_into_target", FOLLOWS.format("") + TRAIN + FOLLOW),
    "plain tensors that go up": ("steps_up_gradient", TENSORS.format("0.01")),
    "a stack of terms with their total": (
        "gradient_counted_twice", STACKED.format('terms["error"] + terms["size"]') + TRAIN
    ),
    "units alike but for rounding": ("units_stay_alike", UNITS.format("fill_(0.1)  # HERE") + TRAIN),
    "a step that torch cannot differentiate": (
        "non_differentiable_op", STEP + TRAIN
    ),
}  # fmt: skip

HEALTHY = {
    "a program that asks whether an operation has a derivative": """
def has_derivative(f):
    x = torch.randn(3, requires_grad=True)
    try:
        f(x).sum().backward()
    except RuntimeError:
        return False
    return True

net = nn.Linear(5, 2)
optimizer = torch.optim.Adam(net.parameters())
act = torch.tanh if not has_derivative(lambda x: torch.heaviside(x, torch.zeros(()))) else torch.relu
for step in range(4):
    x = torch.randn(32, 5)
    loss = F.cross_entropy(act(net(x)), (x[:, 0] > 0).long())"""
    + TRAIN,
    "layers in a module list, beside a partial without one": """
from functools import partial
"""
    + BLOCKS.format(
        "self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))\n        self.add = partial(torch.add, alpha=2)"
    ) + TRAIN,
    "a closure over a layer that is registered": BLOCKS.format(
        "self.hidden = hidden = nn.Linear(8, 8)\n        self.layers = [lambda x: hidden(x).relu(), hidden.forward]"
    ) + TRAIN,
    "a frozen layer in a closure": BLOCKS.format(
        "fixed = nn.Linear(8, 8).requires_grad_(False)\n        self.layers = [lambda x: fixed(x).relu()]"
    ) + TRAIN,
    "states as they are": CELLS.format("states[i]") + TRAIN,
    "states cut off between windows": CELLS.format("states[i] if len(outputs) % 4 else repackage(states[i])") + TRAIN,
    "an attack that goes on": ATTACK.format("moved") + TRAIN,
    "an attack whose result is moved back around its input": ATTACK.format("x + (moved - x)") + TRAIN,
    "a clamp of .grad.data before the step": CLIP + "    clip(net)\n    optimizer.step()\n",
    "a value that fits a cost": BASELINE.replace("returns", "cost").format("critic(s).flatten(), cost") + TRAIN,
    "small batches, divided": MICRO.format("micro_step", "", "loss / 4"),
    "small batches, added up": MICRO.format("micro_step", ', reduction="sum"', "loss"),
    "small batches, with a divided rate": "accumulate = 4"
    + MICRO.format("micro_step", "", "loss").replace("AdamW", "SGD").replace("lr=2e-3", "0.1 / accumulate"),
    "a head for each of what is accumulated": """
net, heads = nn.Linear(6, 4), nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])
optimizer = torch.optim.Adam([*net.parameters(), *heads.parameters()])
for step in range(4):
    x = torch.randn(32, 6)
    optimizer.zero_grad()
    for head, accumulated in zip(heads, range(3)):
        loss = F.cross_entropy(head(net(x).relu()), (x[:, accumulated] > 0).long())
        loss.backward()
    optimizer.step()
""",
    "small batches, of which each gives a part": MICRO.format("micro_step", "", "loss").replace(
        "backward()", "backward(gradient=torch.tensor(0.25))"
    ),
    "scales of one that small steps begin to part": """
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
scale, out = nn.Parameter(torch.ones(3, 8)), nn.Linear(8, 3, bias=False)
optimizer = torch.optim.SGD([*net.parameters(), scale, *out.parameters()], lr=1e-5)
for step in range(4):
    x = torch.randn(32, 6)
    scores = torch.stack([(net(x) * each) @ weight for each, weight in zip(scale, out.weight)], 1)
    loss = F.cross_entropy(scores, x[:, :3].argmax(1))"""
    + TRAIN,
    "losses of tasks": MICRO.format("task", "", "loss"),
    "second derivatives of a meta step": MAML.format("create_graph=True") + TRAIN,
    "first derivatives of a meta step, on purpose": MAML.format("create_graph=False") + TRAIN,
    "the model beside its average": AVERAGED.format("net") + TRAIN + "    average.update_parameters(net)\n",
    "parameters set by a loop over names": POSITIONS.format(
        "setattr(self, name, nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.02)))"
    ) + TRAIN,
    "buffers set by a loop over names": POSITIONS.format(
        "self.register_buffer(name, torch.randn(shape))"
    ) + TRAIN,
    "a constant advantage in a dot product": PRODUCT.format("advantage.detach()") + TRAIN,
    "a loss of each sample, weighed by a learned confidence": """
net, trust = nn.Linear(3, 4), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*net.parameters(), *trust.parameters()])
for step in range(5):
    x, y = torch.randn(12, 3), torch.randint(0, 4, (12,))
    weight = trust(x).sigmoid()[:, 0]
    loss = torch.dot(F.cross_entropy(net(x), y, reduction="none"), weight) / 12 - weight.log().mean()"""
    + TRAIN,
    "a straight-through": CODES.format("p, torch.sub(hard, p).detach()") + TRAIN,
    "a state with its history": HISTORY.format("") + TRAIN,
    "a target network that follows": TARGET.format("fixed.state_dict()") + TRAIN + "    follow()\n",
    "logarithms of probabilities in their bounds": BOUNDED.format("F.nll_loss(p.clamp(1e-6, 1.0).log(), y)") + TRAIN,
    "a term of a generator": PLAYERS.format(""),
    "an advantage by another call of the critic": BASELINE.format("returns, baseline") + TRAIN,
    "a detached target by a shared method": FOLLOWS.format(".detach()") + TRAIN + FOLLOW,
    "plain tensors that go down": TENSORS.format("-0.01"),
    "an input that goes up, for tensors that go down": """
weight, bias = torch.randn(5, 3).requires_grad_(), torch.zeros(3).requires_grad_()
moved = torch.zeros(24, 5).requires_grad_()
x = torch.randn(24, 5)
for step in range(6):
    loss = F.cross_entropy((x + moved) @ weight + bias, x[:, :3].argmax(1))
    loss.backward()
    with torch.no_grad():
        moved.add_(moved.grad, alpha=0.1).clamp_(-0.2, 0.2)
        for each in (weight, bias):
            each.sub_(0.1 * each.grad)
    moved.grad = weight.grad = bias.grad = None
""",
    "gradients of torch.func.grad, which each step replaces": """
from torch.func import functional_call, grad_and_value
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
differentiate = grad_and_value(lambda p, x: (functional_call(net, p, (x,)) - 1).square().mean())
for step in range(8):
    gradients, loss = differentiate(dict(net.named_parameters()), torch.randn(20, 4))
    for name, p in net.named_parameters():
        p.grad = gradients[name].detach()
    optimizer.step()
""",
    "a stack of three terms": STACKED.format("1e-2 * z.abs().mean()") + TRAIN,
    "units that begin almost alike": UNITS.format("normal_(0.1, 1e-3)") + TRAIN,
    "logits in their bounds": """
net = nn.Linear(6, 4)
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))
    loss = F.cross_entropy(net(x).clamp(-30, 30), y)"""
    + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    if cause == "copy_used_instead":
        script += "    average.update_parameters(net)\n"
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_quiet(name: str, tmp_path: Path) -> None:
    script = HEAD + HEALTHY[name]
    found = [(each.cause, each.message) for each in alarms(script, tmp_path)]
    assert found == []


def test_samples_that_a_gradient_moved_and_that_were_cut_off_need_no_second_derivative(tmp_path: Path) -> None:
    script = """
energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(energy.parameters())
for step in range(4):
    real, x = torch.randn(32, 2) + 1, torch.randn(32, 2)
    for _ in range(3):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(energy(x).sum(), x)
        x = x - 0.1 * gradient + 0.05 * torch.randn_like(x)
    of_real, of_sample = energy(real), energy(x.detach())
    loss = (of_real - of_sample).mean() + 0.01 * (of_real.square() + of_sample.square()).mean()"""
    assert findings(HEAD + script + TRAIN, tmp_path) == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("an attack that begins again", "5 steps in a row move the same tensor by their gradient"),
        (
            "a straight-through of two constants",
            "hard, which was chosen or rounded from it, has no gradient to pass on",
        ),
        ("probabilities in their bounds", "cross_entropy() expects logits"),
    ],
)
def test_told_once_in_true_words(name: str, words: str, tmp_path: Path) -> None:
    (found,) = alarms(HEAD + FAULTS[name][1], tmp_path)
    assert words in found.message
