"""Faults where one part of a program makes what another one uses: stages, players, helpers and settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

CRITIC = """
def train():
    generator, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    for_generator = torch.optim.Adam(generator.parameters(), lr=0.01)
    for_critic = torch.optim.Adam(generator.parameters(), lr=0.01)  # HERE
    for step in range(8):
        loss = critic(generator(torch.randn(16, 3)).detach()).mean() - critic(torch.randn(16, 2) + 2).mean()
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()
        critic.requires_grad_(False)
        loss = -critic(generator(torch.randn(16, 3))).mean()
        for_generator.zero_grad()
        loss.backward()
        for_generator.step()
        critic.requires_grad_(True)
train()
"""
ACTOR = """
def train():
    actor, critic = nn.Linear(3, 2), nn.Linear(5, 1)
    for_actor = torch.optim.Adam(critic.parameters(), lr=0.01)  # HERE
    for_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
    for step in range(8):
        x = torch.randn(16, 3)
        loss = (critic(torch.cat([x, torch.randn(16, 2)], 1)) - x[:, :1]).square().mean()
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()
        loss = -critic(torch.cat([x, actor(x).tanh()], 1)).mean()
        for_actor.zero_grad()
        loss.backward(inputs=list(actor.parameters()))
        for_actor.step()
train()
"""
ONLY_LISTED = """
class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = list(nn.Linear(4, 4) for _ in range(3))  # HERE
    def sample(self, x):
        for part in self.parts:
            x = part(x).tanh()
        return x
def main():
    model = Chain()
    with torch.no_grad():
        print(model.sample(torch.randn(2, 4)).norm())
    torch.optim.SGD(model.parameters(), lr=0.1)
main()
"""
PLAIN = """
class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = torch.full((4,), -2.0)  # HERE
    def forward(self):
        return self.raw.exp()
penalty = Penalty()
torch.optim.SGD(penalty.parameters(), lr=0.1)
"""
STAGES = """
class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.Adam(self.trained(model), lr=0.01)
    def trained(self, model):
        return model.parameters()
    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)
    def fit(self):
        for step in range(6):
            loss = self.loss(torch.randn(16, 4), torch.randint(0, 3, (16,)))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
class Distillation(Trainer):
    def __init__(self, model, teacher):
        self.teacher = teacher.requires_grad_(False)
        super().__init__(model)
    def loss(self, x, y):
        out = self.model(x)
        with torch.no_grad():
            soft = self.teacher(x).softmax(1)
        apart = F.kl_div(out.log_softmax(1), soft, reduction="batchmean")
        return 0.7 * apart.item() + 0.3 * F.cross_entropy(out, y)  # HERE
teacher = nn.Linear(4, 3)
Trainer(teacher).fit()
Distillation(nn.Linear(4, 3), teacher).fit()
"""
CLIPPED_BEHIND_GRAD = """
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(16, 3, requires_grad=True)
    (force,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    loss = (force + x.detach()).square().mean()
    optimizer.zero_grad()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # HERE
    loss.backward()
    optimizer.step()
"""
COPIED_TO_POSITIONS = f"""
layer, receivers = nn.Linear(3, 3), torch.tensor([0, 0, 1, 2, 2, 2])
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(4, 6, 3)
    summed = torch.zeros(4, 3, 3).index_copy(1, receivers, layer(x))  # HERE
    loss = (summed - 1).square().mean()
{TRAIN}
"""
CLEARED_BY_A_HELPER = """
class Both:
    def __init__(self, *optimizers):
        self.optimizers = optimizers
    def zero_grad(self):
        for each in self.optimizers:
            each.zero_grad()
    def step(self):
        for each in self.optimizers:
            each.step()
one, two = nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = Both(torch.optim.SGD(one.parameters(), lr=0.1), torch.optim.SGD(two.parameters(), lr=0.1))
for epoch in range(3):
    optimizer.zero_grad()  # HERE
    for step in range(4):
        two(one(torch.randn(8, 3)).tanh()).square().mean().backward()
        optimizer.step()
"""
JOINED_FROZEN = """
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
body.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for epoch in range(4):
    if epoch == 2:
        optimizer.add_param_group({"params": list(body.parameters()), "lr": 0.01})  # HERE
    for step in range(3):
        loss = head(body(torch.randn(8, 4)).tanh()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LIST_UNREAD = f"""
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
decayed = [p for p in model.parameters() if p.ndim > 1]
plain = [p for p in model.parameters() if p.ndim < 2]
optimizer = torch.optim.SGD([{{"params": plain, "weight_decay": 0.0}}], lr=0.1)  # HERE
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
{TRAIN}
"""
SECOND_NAME_FROZEN = f"""
class Pair(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.query = encoder
        self.key = encoder.requires_grad_(False)  # HERE
        self.head = nn.Linear(4, 4)
    def forward(self, x):
        with torch.no_grad():
            target = self.key(x)
        return (self.head(self.query(x)) - target).square().mean()
pair = Pair(nn.Linear(4, 4))
optimizer = torch.optim.SGD([*pair.query.parameters(), *pair.head.parameters()], lr=0.1)
for step in range(4):
    loss = pair(torch.randn(8, 4))
{TRAIN}
"""
SHALLOW = """
class Teacher:
    def __init__(self, student):
        self.student, self.tau = student, 0.9
        self.module = copy.copy(student)  # HERE
    @torch.no_grad()
    def update(self):
        for t, s in zip(self.module.parameters(), self.student.parameters()):
            t.lerp_(s, 1 - self.tau)
online = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
teacher = Teacher(online)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    with torch.no_grad():
        target = teacher.module(x + 0.1 * torch.randn(8, 4))
    loss = (online(x) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    teacher.update()
"""
FREED_IN_A_LOOP = """
weight = nn.Parameter(torch.randn(4))
(slope,) = torch.autograd.grad((weight ** 4).sum(), weight, create_graph=True)
v = torch.ones(4)
for turn in range(3):
    (v,) = torch.autograd.grad(slope, weight, v, retain_graph=False)  # HERE
"""
NEVER_STEPS_BESIDE_A_CLOSURE = """
inner, outer = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.Adam(outer.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    outer(torch.randn(8, 4)).square().mean().backward()  # HERE
refit = torch.optim.LBFGS(inner.parameters())
x = torch.randn(8, 4)
def closure():
    refit.zero_grad()
    loss = (inner(x) - 1).square().mean()
    loss.backward()
    return loss
refit.step(closure)
"""
FORGOTTEN = """
def fit(model, x):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    optimizer = torch.optim.LBFGS(model.parameters())  # HERE
    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss
    return closure().item()
fit(nn.Linear(4, 1), torch.randn(8, 4))
"""
TWINS = f"""
class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, x):
        return self.one(x), x[:, :1]  # HERE
critic = Twins()
target = copy.deepcopy(critic).requires_grad_(False)
optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(8, 4)
    with torch.no_grad():
        y = torch.min(*target(x + 1)) + 1
    one, two = critic(x)
    loss = (one - y).square().mean() + (two - y).square().mean()
{TRAIN}
    with torch.no_grad():
        for t, p in zip(target.parameters(), critic.parameters()):
            t.lerp_(p, 0.1)
"""
ARGUMENT_UNREAD = """
net = nn.Linear(2, 1)
def start(x):
    return torch.sin(x)
def solution(x, t):
    return start(x)  # HERE
x, t = torch.rand(8, 1, requires_grad=True), torch.rand(8, 1, requires_grad=True)
u = solution(x, t) * net.weight.sum()
torch.autograd.grad(u.sum(), (x, t), create_graph=True)
"""
SCALED_BY_A_QUOTIENT = f"""
class Adapted(nn.Module):
    def __init__(self, rank, alpha):
        super().__init__()
        self.base = nn.Linear(4, 4).requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, 4))
        self.b = nn.Parameter(torch.zeros(4, rank))
        self.scale = alpha // rank  # HERE
    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.T @ self.b.T)
layer, head = Adapted(16, 8), nn.Linear(4, 1)
optimizer = torch.optim.Adam([layer.a, layer.b, *head.parameters()], lr=0.01)
for step in range(4):
    loss = (head(layer(torch.randn(8, 4))) - 1).square().mean()
{TRAIN}
"""
EVALUATION_SEEDS = """
def corrupted(x, generator=None):
    noise = torch.randn(x.shape, generator=generator)
    return x + noise, noise
data, held, net = torch.randn(64, 3), torch.randn(32, 3), nn.Linear(3, 3)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def train():
    for index in torch.randperm(64).split(16):
        noisy, noise = corrupted(data[index])
        loss = (net(noisy) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
@torch.no_grad()
def evaluate():
    torch.manual_seed(7)  # HERE
    noisy, noise = corrupted(held)
    return (net(noisy) - noise).square().mean().item()
for epoch in range(6):
    train()
    evaluate()
"""
MASKED_LABELS = f"""
embed, head = nn.Embedding(12, 8), nn.Linear(8, 12)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
def batch():
    line = torch.randint(1, 12, (8, 10))
    line = line.masked_fill(torch.arange(10) >= torch.randint(5, 10, (8, 1)), 0)
    labels = line[:, 1:]
    return line[:, :-1], labels.masked_fill(labels == 0, -100)
for step in range(5):
    ids, labels = batch()
    logits = head(embed(ids))
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
{TRAIN}
"""
EQUAL_SIZES = f"""
net = nn.Linear(6, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(6, 6, 3)
    b, t, c = x.shape
    series = x.reshape(b * c, t)  # HERE
    loss = (net(series) - series.sum(1, keepdim=True).sin()).square().mean()
{TRAIN}
"""
WRAPPED = f"""
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.task = nn.Linear(4, 1), {{}}
    def install(self, weight):
        self.task = {{"weight": nn.Parameter(weight)}}  # HERE
    def forward(self, x):
        return self.read(F.linear(x, self.task["weight"]).tanh())
policy, hyper = Policy(), nn.Linear(2, 16)
optimizer = torch.optim.Adam([*policy.parameters(), *hyper.parameters()], lr=0.01)
for step in range(4):
    policy.install(hyper(torch.randn(2)).view(4, 4))
    loss = policy(torch.randn(8, 4)).square().mean()
{TRAIN}
"""
FAULTS = {
    "not_stepped": (CRITIC, ACTOR, LIST_UNREAD, NEVER_STEPS_BESIDE_A_CLOSURE, FORGOTTEN),
    "not_registered": (ONLY_LISTED,),
    "plain_tensor": (PLAIN,),
    "term_without_gradient": (STAGES,),
    "clip_misplaced": (CLIPPED_BEHIND_GRAD,),
    "duplicate_index": (COPIED_TO_POSITIONS,),
    "missing_zero_grad": (CLEARED_BY_A_HELPER,),
    "requires_grad_false": (JOINED_FROZEN,),
    "copied_onto_itself": (SECOND_NAME_FROZEN, SHALLOW),
    "graph_freed": (FREED_IN_A_LOOP,),
    "unused_parameter": (TWINS, ARGUMENT_UNREAD),
    "masked_out": (SCALED_BY_A_QUOTIENT,),
    "same_random_numbers": (EVALUATION_SEEDS,),
    "axes_mixed_up": (EQUAL_SIZES,),
    "tensor_rewrap": (WRAPPED,),
}


@pytest.mark.parametrize(("cause", "script"), [(cause, script) for cause, each in FAULTS.items() for script in each])
def test_it_is_told_at_the_line_that_one_would_edit(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


def test_labels_that_leave_out_padding_are_known_as_shifted(tmp_path: Path) -> None:
    assert [each.cause for each in alarms(HEAD + MASKED_LABELS, tmp_path)] == ["targets_shifted_twice"]


RIGHT = {
    "a target network follows both": TWINS.replace("x[:, :1]  # HERE", "self.two(x)"),
    "sizes in their order": EQUAL_SIZES.replace("b * c, t", "b * t, c").replace("nn.Linear(6, 2)", "nn.Linear(3, 2)"),
    "another tensor of equal sizes": EQUAL_SIZES.replace("x.reshape", "x.transpose(1, 2).reshape"),
    "a generator of the evaluation": EVALUATION_SEEDS.replace("    torch.manual_seed(7)  # HERE\n", "").replace(
        "corrupted(held)", "corrupted(held, torch.Generator().manual_seed(7))"
    ),
    "a group that is unfrozen before": JOINED_FROZEN.replace(
        "        optimizer.add", "        body.requires_grad_(True)\n        optimizer.add"
    ),
    "an optimizer that closes in": FORGOTTEN.replace("return closure", "optimizer.step(closure)\n    return closure"),
    "positions that are added up": COPIED_TO_POSITIONS.replace("index_copy", "index_add"),
}


@pytest.mark.parametrize("script", RIGHT.values(), ids=RIGHT)
def test_a_right_program_raises_no_alarm(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []


def test_a_step_of_a_copy_is_no_step_of_the_model(tmp_path: Path) -> None:
    """A term that is compared with a target is not cut by what made the target."""
    assert "term_without_gradient" not in {each.cause for each in findings(HEAD + TWINS, tmp_path)}
