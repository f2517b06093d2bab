"""Training that runs, and is not what was meant: the wrong axis, padding that counts, the same noise; and what looks
like it and is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

WRONG: dict[tuple[str, str], str] = {
    ("wrong_axis", "a policy whose probabilities sum to one over the batch"): """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    dist = torch.distributions.Categorical(torch.softmax(policy(x), dim=0))  # HERE
    action = dist.sample()
    loss = -(dist.log_prob(action) * x[:, 0]).mean()
"""
    + TRAIN,
    ("wrong_axis", "log-probabilities of classes, over the batch"): """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    log_probabilities = model(torch.randn(8, 4)).log_softmax(0)  # HERE
    loss = F.nll_loss(log_probabilities, torch.randint(0, 3, (8,)))
"""
    + TRAIN,
    ("wrong_axis", "log-probabilities of symbols, over the frames"): """
model = nn.Linear(8, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    frames = model(torch.randn(4, 12, 8)).log_softmax(1).transpose(0, 1)  # HERE
    lengths = torch.full((4,), 12), torch.full((4,), 3)
    loss = F.ctc_loss(frames, torch.randint(1, 5, (4, 3)), *lengths)
"""
    + TRAIN,
    ("wrong_axis", "probabilities over the batch, of which one of each sample is taken"): """
model, rows = nn.Linear(4, 3), torch.arange(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    p = model(torch.randn(8, 4)).softmax(0)  # HERE
    loss = -(p[rows, torch.randint(0, 3, (8,))] + 1e-6).log().mean()
"""
    + TRAIN,
    ("wrong_axis", "weights of time steps that sum to one over the batch"): """
encoder, score = nn.Linear(4, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *score.parameters()], lr=0.1)
for step in range(3):
    h = encoder(torch.randn(8, 5, 4)).tanh()
    weights = torch.softmax(score(h), dim=0)  # HERE
    loss = ((weights * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("wrong_axis", "cosines of columns instead of rows"): """
encoder = nn.Linear(4, 6)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    a = F.normalize(encoder(x), dim=0)  # HERE
    b = F.normalize(encoder(x + 0.1), dim=0)
    loss = F.cross_entropy(a @ b.t() / 0.1, torch.arange(8))
"""
    + TRAIN,
    ("normalized_twice", "a divergence of probabilities"): """
model, teacher = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    wanted = teacher(x).softmax(1)
    loss = F.kl_div(model(x).softmax(1), wanted, reduction="batchmean")  # HERE
"""
    + TRAIN,
    ("clip_misplaced", "clipping of gradients that are still zero"): """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad(set_to_none=False)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # HERE
    loss.backward()
    optimizer.step()
""",
    ("clip_misplaced", "a scaler whose step is not called"): """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()  # HERE
""",
    ("missing_zero_grad", "a critic with gradients of its policy, cleared only after its step"): """
policy, critic = nn.Linear(4, 2), nn.Linear(6, 1)
of_policy = torch.optim.SGD(policy.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(4):
    s = torch.randn(8, 4)
    policy_loss = -critic(torch.cat([s, policy(s).tanh()], 1)).mean()
    of_policy.zero_grad()
    policy_loss.backward()
    of_policy.step()
    critic_loss = (critic(torch.cat([s, torch.rand(8, 2)], 1)) - s.sum(1, keepdim=True)).square().mean()
    critic_loss.backward()  # HERE
    of_critic.step()
    of_critic.zero_grad()
""",
    ("zero_gradient_op", "recognizers whose frames are divided twice"): """
frames, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 5)
speaker = nn.Linear(8, 2)
optimizer = torch.optim.SGD([*frames.parameters(), *head.parameters(), *speaker.parameters()], lr=0.1)
for step in range(4):
    h = frames(torch.randn(6, 12, 4))[0]
    symbols = head(h).log_softmax(-1).transpose(0, 1)
    lengths = torch.full((6,), 12 // 4), torch.full((6,), 5)
    loss = F.ctc_loss(symbols, torch.randint(1, 5, (6, 5)), *lengths, zero_infinity=True)  # HERE
    loss = loss + F.cross_entropy(speaker(h.mean(1)), torch.randint(0, 2, (6,)))
"""
    + TRAIN,
    ("padding_in_loss", "padded regression"): """
model = nn.GRU(2, 1, batch_first=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    target = nn.utils.rnn.pad_sequence([torch.randn(n, 1) for n in (3, 6, 4)], batch_first=True)
    loss = F.mse_loss(model(torch.randn(3, 6, 2))[0], target)  # HERE
"""
    + TRAIN,
    ("same_random_numbers", "a variational sample with a seed in the model"): """
encoder, decoder = nn.Linear(4, 16), nn.Linear(8, 4)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
def sample(mean, log_var):
    torch.manual_seed(42)  # HERE
    return mean + torch.randn_like(mean) * (0.5 * log_var).exp()
data = torch.randn(40, 4)
for step in range(4):
    x = data[step * 10: step * 10 + 10]
    mean, log_var = encoder(x).chunk(2, 1)
    loss = (decoder(sample(mean, log_var)) - x).square().mean()
"""
    + TRAIN,
    ("same_random_numbers", "a validation that seeds what the training draws from"): """
model = nn.Linear(6, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def loss_of(x):
    noise = torch.randn_like(x)
    return (model(x + noise) - noise).square().mean()
@torch.no_grad()
def validate(x):
    torch.manual_seed(0)  # HERE
    return loss_of(x).item()
data, held_out = torch.randn(32, 6), torch.randn(32, 6)
for epoch in range(4):
    for rows in torch.randperm(32).split(8):
        loss = loss_of(data[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    validate(held_out)
""",
    ("not_stepped", "parameters that no group of the optimizer has, in a function that has ended"): """
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gate = nn.Parameter(torch.zeros(4))
    def forward(self, x):
        return self.linear(x) * self.gate.sigmoid()
def main():
    model = Gated()
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith(end)]}  # HERE
              for end in ("weight", "bias")]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
main()
""",
    ("straight_through_reversed", "a straight-through estimate that is turned round"): """
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
def quantized(x):
    q = torch.round(x * 4) / 4
    return q + (x - q).detach()  # HERE
for step in range(4):
    loss = head(quantized(model(torch.randn(8, 4)))).square().mean()
"""
    + TRAIN,
    ("training_mode", "a dropout function that is not told about evaluation"): """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.head = nn.Linear(4, 6), nn.Linear(6, 1)
    def forward(self, x):
        return self.head(F.dropout(self.linear(x), 0.3))  # HERE
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        print(model(torch.randn(8, 4)).square().mean().item())
    model.train()
""",
    ("statistics_never_updated", "an average of the parameters alone"): """
model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
average = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4) + 3
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, theirs in zip(average.parameters(), model.parameters()):
            mine.mul_(0.9).add_(theirs, alpha=0.1)  # HERE
        average(x)
""",
}

HEALTHY: dict[str, str] = {
    "a teacher that normalizes with batches, and is scored with the statistics of these": """
online, predict = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), nn.Linear(6, 6)
teacher = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.SGD([*online.parameters(), *predict.parameters()], lr=0.05)
for step in range(4):
    x = torch.randn(16, 4) + 3
    with torch.no_grad():
        wanted = teacher(x + 0.1 * torch.randn(16, 4))
    loss = 1 - F.cosine_similarity(predict(online(x)), wanted).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, theirs in zip(teacher.parameters(), online.parameters()):
            mine.lerp_(theirs, 0.2)
teacher.eval()
with torch.no_grad():
    print(teacher(torch.randn(8, 4) + 3).std())
""",
    "a validation with a generator of its own, and two models that are trained from the same seed": """
def loss_of(model, x, generator=None):
    noise = torch.randn(x.shape, generator=generator)
    return (model(x + noise) - noise).square().mean()
data, held_out = torch.randn(32, 6), torch.randn(32, 6)
def train(rate):
    torch.manual_seed(1)
    model = nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(2):
        for rows in torch.randperm(32).split(8):
            loss = loss_of(model, data[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            loss_of(model, held_out, torch.Generator().manual_seed(0))
for rate in (0.1, 0.05, 0.01):
    train(rate)
""",
    "a learned step size whose gradient is scaled down, with the value of before": """
def scaled(x, factor):
    return (x - x * factor).detach() + x * factor
class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.step = nn.Linear(6, 3), nn.Parameter(torch.tensor(0.1))
    def forward(self, x):
        step = scaled(self.step, 0.05)
        levels = (self.linear.weight / step).clamp(-4, 3)
        levels = levels + (levels.round() - levels).detach()
        return F.linear(x, levels * step, self.linear.bias)
model = Quantized()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.cross_entropy(model(torch.randn(16, 6)), torch.randint(0, 3, (16,)))
"""
    + TRAIN,
    "log-probabilities of symbols in the order that a loss of sequences asks for": """
model = nn.Linear(8, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    frames = model(torch.randn(4, 12, 8)).transpose(0, 1).log_softmax(-1)
    lengths = torch.full((4,), 12), torch.full((4,), 3)
    loss = F.ctc_loss(frames, torch.randint(1, 5, (4, 3)), *lengths)
"""
    + TRAIN,
    "probabilities of classes, of which one of each sample is taken": """
model, rows = nn.Linear(4, 3), torch.arange(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    p = model(torch.randn(8, 4)).softmax(1)
    loss = -(p[rows, torch.randint(0, 3, (8,))] + 1e-6).log().mean()
"""
    + TRAIN,
    "clusters that nodes are summed into, slots, and channels of a mask": """
assign, key, query, mask = nn.Linear(4, 3), nn.Linear(4, 6), nn.Linear(4, 6), nn.Conv2d(1, 3, 3, padding=1)
optimizer = torch.optim.SGD([p for m in (assign, key, query, mask) for p in m.parameters()], lr=0.1)
for step in range(3):
    x, adjacency = torch.randn(2, 7, 4), torch.rand(2, 7, 7)
    clusters = torch.softmax(adjacency @ assign(x), dim=-1)
    pooled = clusters.transpose(1, 2) @ x
    slots = torch.softmax(query(x[:, :3]) @ key(x).transpose(1, 2), dim=1) + 1e-6
    updates = (slots / slots.sum(-1, keepdim=True)) @ x
    probabilities, wanted = mask(torch.randn(2, 1, 6, 6)).softmax(1), torch.rand(2, 3, 6, 6)
    dice = 1 - (2 * (probabilities * wanted).sum((2, 3)) / (probabilities + wanted).sum((2, 3))).mean()
    loss = pooled.square().mean() + updates.square().mean() + dice
"""
    + TRAIN,
    "attention over time that comes first, linear attention, and a correlation of features": """
score, key, query = nn.Linear(4, 1), nn.Linear(4, 6), nn.Linear(4, 6)
optimizer = torch.optim.SGD([p for m in (score, key, query) for p in m.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(9, 2, 4)
    pooled = (torch.softmax(score(x), dim=0) * x).sum(0)
    batch_first = x.transpose(0, 1)
    k, q = key(batch_first).softmax(dim=-2), query(batch_first).softmax(dim=-1)
    linear = q @ (k.transpose(1, 2) @ batch_first)
    z = F.normalize(key(x[0]), dim=1)
    columns = F.normalize(key(x[:, 0]), dim=0)
    correlation = columns.t() @ columns
    loss = pooled.square().mean() + linear.square().mean() + (z.t() @ z).square().mean() + correlation.square().mean()
"""
    + TRAIN,
    "padding that the loss ignores, and one that is masked": """
model = nn.GRU(2, 4, batch_first=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    lengths = (3, 6, 4)
    labels = nn.utils.rnn.pad_sequence([torch.randint(0, 4, (n,)) for n in lengths], True, padding_value=-100)
    values = nn.utils.rnn.pad_sequence([torch.randn(n) for n in lengths], True)
    mask = torch.arange(6)[None] < torch.tensor(lengths)[:, None]
    scores = model(torch.randn(3, 6, 2))[0]
    squares = F.mse_loss(scores[..., 0], values, reduction="none")
    loss = F.cross_entropy(scores.transpose(1, 2), labels) + (squares * mask).sum() / mask.sum()
"""
    + TRAIN,
    "fixed noise to look at samples, and data from a generator that starts anew in every epoch": """
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(16, 4, generator=generator)
for step in range(4):
    x = data()
    loss = (model(x + 0.1 * torch.randn_like(x)) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        z = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
        shown = model(x + z)
""",
    "one update for each new data, and a ratio to itself": """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(4):
    states = torch.randn(16, 4)
    with torch.no_grad():
        before = torch.distributions.Categorical(logits=policy(states))
        actions = before.sample()
        old = before.log_prob(actions)
    new = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
    ratio = (new - old).exp()
    loss = -torch.min(ratio * states[:, 0], ratio.clamp(0.8, 1.2) * states[:, 0]).mean()
    loss = loss + ((new - new.detach()).exp() * states[:, 1]).mean()
"""
    + TRAIN,
    "tensors that a class keeps that is no module, and a distribution that a module keeps": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.base = torch.distributions.Normal(0.0, 1.0)
    def forward(self, x):
        return self.base.log_prob(self.linear(x)).sum(1)
class Table:
    def __init__(self):
        self.rows = torch.randn(16, 4)
model, table = Model(), Table()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = -model(table.rows).mean()
"""
    + TRAIN,
    "an expert to which no input is sent": """
router = nn.Linear(4, 3)
experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)) for _ in range(3))
optimizer = torch.optim.SGD([*router.parameters(), *experts.parameters()], lr=0.1)
with torch.no_grad():
    router.bias[2] = -100.0
for step in range(4):
    x = torch.randn(16, 4)
    weight, choice = router(x).softmax(1).max(1)
    out = torch.zeros(16, 4)
    for number, expert in enumerate(experts):
        rows = (choice == number).nonzero().squeeze(1)
        if len(rows):
            out = out.index_add(0, rows, weight[rows, None] * expert(x[rows]))
    loss = (out - x).square().mean()
"""
    + TRAIN,
    "a penalty on weights beside the loss of each sample, and an energy that is summed for its forces": """
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(8, 8, requires_grad=True)
    energy = model(x).square().sum(1)
    (forces,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
    each = energy + forces.square().sum(1) + 0.1 * model.weight.square().sum()
    loss = each.mean() + energy.mean()
"""
    + TRAIN,
    "a trunk whose gradients are the sum of those of two heads, each with an optimizer": """
trunk, first, second = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
of_trunk = torch.optim.SGD(trunk.parameters(), lr=0.1)
of_first = torch.optim.SGD(first.parameters(), lr=0.1)
of_second = torch.optim.SGD(second.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    of_trunk.zero_grad()
    for head, optimizer in ((first, of_first), (second, of_second)):
        optimizer.zero_grad()
        head(trunk(x).tanh()).square().mean().backward()
        optimizer.step()
    of_trunk.step()
""",
    "a scaler that is used as it should be, and a loss that the program scales and unscales": """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
factor = torch.full((), 8.0)
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    if step % 2:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        (loss * factor).backward()
        for parameter in model.parameters():
            parameter.grad /= factor
        optimizer.step()
""",
}


@pytest.mark.parametrize(("cause", "shape"), list(WRONG))
def test_the_mistake_and_its_line_come_first(cause: str, shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[cause, shape], cause, tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_what_only_looks_like_it_raises_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look], tmp_path)] == []


def test_gradients_of_a_critic_that_nothing_ever_clears_are_told_once(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
policy, critic = nn.Linear(3, 2), nn.Linear(5, 1)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(5):
    state, action = torch.randn(8, 3), torch.randn(8, 2)
    (critic(torch.cat([state, action], 1)) - 1).square().mean().backward()
    critic_optimizer.step()
    loss = -critic(torch.cat([state, policy(state)], 1)).mean()
"""
        + TRAIN
    )
    assert [each.cause for each in alarms(script, tmp_path)] == ["missing_zero_grad"]


def test_layers_that_another_file_replaces_are_told_once_at_the_line_that_calls_it(tmp_path: Path) -> None:
    (tmp_path / "growing.py").write_text(
        "from torch import nn\ndef grow(model):\n    model[0] = nn.Linear(4, 6)\n    model[2] = nn.Linear(6, 1)\n"
    )
    script = (
        HEAD
        + """
from growing import grow
def main():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    grow(model)  # HERE
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
main()
"""
    )
    (found,) = alarms(script, tmp_path)
    assert found.cause == "stale_optimizer_params"
    assert found.location is not None
    assert "# HERE" in script.splitlines()[found.location.line - 1]
    assert "growing.py:3" in found.message
