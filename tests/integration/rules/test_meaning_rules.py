"""Programs that do exactly what is written, and not what is meant; and programs that look like them and mean it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

WRONG: dict[tuple[str, str], str] = {
    ("sampled_without_gradient", "a soft actor-critic whose actions are drawn with sample()"): """
import torch
from torch import nn
from torch.distributions import Normal
torch.manual_seed(0)
policy = nn.Linear(4, 4)
critic = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
popt = torch.optim.Adam(policy.parameters(), lr=1e-2)
copt = torch.optim.Adam(critic.parameters(), lr=1e-2)
alpha = torch.tensor(0.2)
for step in range(4):
    s, a, r = torch.randn(16, 4), torch.randn(16, 2), torch.randn(16, 1)
    closs = (critic(torch.cat([s, a], 1)) - r).square().mean()
    copt.zero_grad()
    closs.backward()
    copt.step()
    mean, log_std = policy(s).chunk(2, -1)
    dist = Normal(mean, log_std.exp())
    u = dist.sample()  # HERE
    act = torch.tanh(u)
    logp = (dist.log_prob(u) - torch.log(1 - act.pow(2) + 1e-6)).sum(1, keepdim=True)
    loss = (alpha * logp - critic(torch.cat([s, act], 1))).mean()
    popt.zero_grad()
    loss.backward()
    popt.step()
""",
    ("gradient_into_target", "an advantage that the critic goes on from, in one loss with the policy"): """
import torch
from torch import nn
from torch.distributions import Categorical
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
actor, critic = nn.Linear(16, 3), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*body.parameters(), *actor.parameters(), *critic.parameters()], lr=1e-2)
for episode in range(5):
    states = torch.randn(20, 4)
    hidden = body(states)
    dist = Categorical(logits=actor(hidden))
    actions = dist.sample()
    returns = (actions.float() - 1) * states[:, 0]
    values = critic(hidden).squeeze(1)
    advantage = returns - values
    policy_loss = -(dist.log_prob(actions) * advantage).mean()  # HERE
    loss = policy_loss + 0.5 * advantage.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ("gradient_into_target", "a target from the trained network, with a mask for the last states"): """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    state, next_state = torch.randn(32, 4), torch.randn(32, 4)
    action, reward = torch.randint(0, 2, (32,)), torch.randn(32)
    done = (torch.rand(32) < 0.1).float()
    q = net(state).gather(1, action.unsqueeze(1)).squeeze(1)
    next_q = net(next_state).max(1).values  # HERE
    target = reward + 0.99 * next_q * (1 - done)
    loss = F.mse_loss(q, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ("gradient_into_target", "an error of temporal differences"): """
import torch
from torch import nn
torch.manual_seed(0)
value = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(value.parameters(), lr=1e-2)
state = torch.randn(1, 4)
for step in range(6):
    next_state, reward = torch.randn(1, 4), torch.randn(1)
    td_error = reward + 0.95 * value(next_state) - value(state)  # HERE
    loss = td_error.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state = next_state
""",
    ("accumulation_undivided", "a cross entropy over small batches"): """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
accumulate = 4
optimizer.zero_grad()
for i in range(12):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    loss = F.cross_entropy(model(x), y)
    loss.backward()  # HERE
    if (i + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    ("wrong_optimizer", "a generator whose loss is followed by a step of the discriminator"): """
import torch
from torch import nn
torch.manual_seed(0)
generator, discriminator = nn.Linear(4, 2), nn.Linear(2, 1)
opt_g = torch.optim.SGD(generator.parameters(), lr=0.01)
opt_d = torch.optim.SGD(discriminator.parameters(), lr=0.01)
for step in range(3):
    fake = generator(torch.randn(8, 4))
    opt_d.zero_grad()
    (discriminator(fake.detach()).mean() - discriminator(torch.randn(8, 2)).mean()).backward()
    opt_g.step()  # HERE
    opt_g.zero_grad()
    (-discriminator(generator(torch.randn(8, 4))).mean()).backward()
    opt_g.step()
""",
    ("missing_zero_grad", "the gradient of one of two losses is cleared at once"): """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    (model(torch.randn(8, 4)) - 1).square().mean().backward()
    model.zero_grad()  # HERE
    (model(torch.randn(8, 4)) + 1).square().mean().backward()
    (model(torch.randn(8, 4)) + 2).square().mean().backward()
    optimizer.step()
""",
    ("grad_argument", "a scale that nothing divides by"): """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward(torch.full_like(loss, 64.0))  # HERE
    optimizer.step()
""",
    ("numpy_roundtrip", "a loss that is a NumPy number before backward"): """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
loss = torch.from_numpy(model(torch.randn(8, 4)).square().mean().detach().numpy())  # HERE
loss.backward()
""",
    ("broken_weight_tie", "an output layer with a copy of the embedding's weight"): """
import torch
from torch import nn
torch.manual_seed(0)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.out.weight = nn.Parameter(self.embed.weight.detach().clone())  # HERE
    def forward(self, x):
        return self.out(torch.tanh(self.embed(x)))
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    words = torch.randint(0, 9, (8,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(words), words).backward()
    optimizer.step()
""",
    ("create_graph_missing", "a meta step whose inner gradient only keeps its graph"): """
import torch
from torch import nn
torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    x, y = torch.randn(8, 4), torch.randn(8)
    inner = (torch.tanh(x @ w) - y).square().mean()
    (g,) = torch.autograd.grad(inner, [w], retain_graph=True)  # HERE
    fast = w - 0.1 * g
    optimizer.zero_grad()
    (torch.tanh(x @ fast) - y).square().mean().backward()
    optimizer.step()
""",
}
HEALTHY: dict[str, str] = {
    "a draw whose log-probability is weighed with what it brought": """
import torch
from torch import nn
from torch.distributions import Normal
torch.manual_seed(0)
policy = nn.Linear(4, 2)
critic = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
log_std = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters(), log_std], lr=1e-2)
for step in range(4):
    s = torch.randn(16, 4)
    dist = Normal(policy(s), log_std.exp())
    a = dist.sample()
    reward = -(a.square().sum(1))
    q = critic(torch.cat([s, a], 1)).squeeze(1)
    advantage = reward - q.detach()
    loss = -(dist.log_prob(a).sum(1) * advantage).mean() + (q - reward).square().mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "an advantage that is detached": """
import torch
from torch import nn
from torch.distributions import Categorical
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
actor, critic = nn.Linear(16, 3), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*body.parameters(), *actor.parameters(), *critic.parameters()], lr=1e-2)
for episode in range(5):
    states = torch.randn(20, 4)
    hidden = body(states)
    dist = Categorical(logits=actor(hidden))
    actions = dist.sample()
    returns = (actions.float() - 1) * states[:, 0]
    values = critic(hidden).squeeze(1)
    advantage = returns - values
    policy_loss = -(dist.log_prob(actions) * advantage.detach()).mean()
    loss = policy_loss + 0.5 * advantage.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "outputs of one network that are compared with each other and with data": """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for step in range(6):
    x = torch.randn(16, 4)
    one, other = net(x + 0.1 * torch.randn(16, 4)), net(x)
    forcing = torch.randn(16, 2)
    dt = 0.1
    loss = F.mse_loss(one, other) + (net(x + dt) - net(x) - dt * forcing).square().mean()
    loss = loss + F.mse_loss(net(x + 0.2), x[:, :2] + 0.1 * torch.sin(x[:, 2:]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "accumulated sums over batches": """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
accumulate = 4
optimizer.zero_grad()
for i in range(12):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    loss = F.cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    if (i + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a loop over tasks inside of a step": """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for i in range(4):
    optimizer.zero_grad()
    for task in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    optimizer.step()
""",
    "a copy in training mode that follows the student": """
import torch, copy
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
student = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
teacher = copy.deepcopy(student)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(16, 6)
    with torch.no_grad():
        wanted = teacher(x)
    loss = F.mse_loss(student(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters()):
            t.lerp_(s, 0.01)
""",
    "a scale that the gradients are divided by": """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward(torch.full_like(loss, 64.0))
    for parameter in model.parameters():
        parameter.grad.div_(64.0)
    optimizer.step()
""",
    "a meta step of first order": """
import torch
torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    x, y = torch.randn(8, 4), torch.randn(8)
    (g,) = torch.autograd.grad((torch.tanh(x @ w) - y).square().mean(), [w])
    fast = w - 0.1 * g
    optimizer.zero_grad()
    (torch.tanh(x @ fast) - y).square().mean().backward()
    optimizer.step()
""",
    "a layer that starts with a copy of another one": """
import torch
from torch import nn
torch.manual_seed(0)
first, second = nn.Linear(4, 4), nn.Linear(4, 4)
second.weight = nn.Parameter(first.weight.detach().clone())
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    second(torch.tanh(first(torch.randn(8, 4)))).square().mean().backward()
    optimizer.step()
""",
    "a checkpoint without random numbers, which keeps none": """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
block, head = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0)), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    h = checkpoint(block, torch.randn(8, 4), use_reentrant=False, preserve_rng_state=False)
    head(h).square().mean().backward()
    optimizer.step()
""",
}

AGAIN = """
import torch
from torch import nn
torch.manual_seed(0)
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, run, *weights):
        ctx.run, ctx.weights, ctx.state = run, weights, torch.get_rng_state()
        ctx.save_for_backward(x)
        return run(x)
    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            out = ctx.run(x)  # HERE
        to_x, *others = torch.autograd.grad(out, (x, *ctx.weights), grad)
        return to_x, None, *others
block, head = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Dropout(0.3), nn.Linear(4, 4)), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    head(Again.apply(torch.randn(8, 4), block, *block.parameters())).square().mean().backward()
    optimizer.step()
"""
"""A custom function that computes its forward again in backward."""
ATTENTION = "nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3)"
RESTORED = """with torch.enable_grad(), torch.random.fork_rng():
            torch.set_rng_state(ctx.state)
"""
WRONG.update({
    ("other_random_numbers", "a custom function that computes dropout again"): AGAIN,
    ("other_random_numbers", "a custom function that computes attention again"):
        AGAIN.replace("nn.Dropout(0.3)", ATTENTION),
})  # fmt: skip
HEALTHY.update({
    "a custom function that puts the state of the generator back":
        AGAIN.replace("with torch.enable_grad():\n", RESTORED),
    "a custom function that puts the state of the generator back before attention":
        AGAIN.replace("with torch.enable_grad():\n", RESTORED).replace("nn.Dropout(0.3)", ATTENTION),
    "a custom function that computes again without dropout": AGAIN.replace("Dropout(0.3)", "Dropout(0.0)"),
    "a custom function that computes again with the noise of its forward":
        AGAIN.replace("Dropout(0.3)", "Identity()").replace("return run(x)", "ctx.noise = torch.randn_like(x)\n"
        "        return run(x + ctx.noise)").replace("ctx.run(x)", "ctx.run(x + ctx.noise)"),
    "a custom function that adds noise to gradients only":
        AGAIN.replace("Dropout(0.3)", "Identity()").replace("return to_x", "return to_x + torch.randn_like(to_x)"),
})  # fmt: skip


@pytest.mark.parametrize(("cause", "shape"), list(WRONG))
def test_the_cause_and_its_line_come_first(cause: str, shape: str, tmp_path: Path) -> None:
    assert_first_alarm(WRONG[cause, shape], cause, tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_similar_but_correct_programs_raise_no_alarm(look: str, tmp_path: Path) -> None:
    assert alarms(HEALTHY[look], tmp_path) == []
