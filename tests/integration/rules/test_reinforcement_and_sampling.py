"""References that are the trained model, signs of entropies, gradients of sampling loops; and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DPO = """
policy = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))
{reference}
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
def logps(model, tokens):
    logp = model(tokens[:, :-1]).log_softmax(-1)
    return logp.gather(-1, tokens[:, 1:, None]).squeeze(-1).sum(1)
for step in range(3):
    good, bad = torch.randint(0, 9, (4, 5)), torch.randint(0, 9, (4, 5))
    a, b = logps(policy, good), logps(policy, bad)
    with torch.no_grad():
        ra, rb = logps(ref, good), logps(ref, bad)  # HERE
    loss = -F.logsigmoid(0.1 * ((a - b) - (ra - rb))).mean()
"""
TEACHER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)
    def forward(self, x):
        return self.head(self.norm(self.body(x)).relu())
student = Net()
{teacher}
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
for step in range(3):
    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))
    logits = student(x)
    soft = F.softmax(teacher(x).detach() / 2, dim=1)  # HERE
    loss = F.cross_entropy(logits, y) + 4 * F.kl_div(F.log_softmax(logits / 2, dim=1), soft, reduction="batchmean")
"""
NORMAL = """
mean, log_std = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([*mean.parameters(), log_std], lr=0.05)
class Agent:
    def __init__(self, actor, anchor):
        self.actor, self.anchor = actor, anchor
    def divergence(self, x):
        now = torch.distributions.Normal(self.actor(x), log_std.exp())
        with torch.no_grad():
            then = torch.distributions.Normal(self.anchor(x), log_std.exp())  # HERE
        return torch.distributions.kl_divergence(now, then).sum(1).mean()
agent = Agent(mean, {anchor})
for step in range(4):
    x, wanted = torch.randn(8, 4), torch.randn(8, 2)
    loss = F.gaussian_nll_loss(mean(x), wanted, log_std.exp().expand(8, 2) ** 2) + 0.2 * agent.divergence(x)
"""
DISTILLED = """
predictor = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
frozen = {frozen}
optimizer = torch.optim.Adam(predictor.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(12, 5)
    with torch.no_grad():
        known = frozen(x)  # HERE
    guess = predictor(x)
    loss = F.mse_loss(guess, known)
"""
REFERENCES = {
    "a predictor of its own output, so that the whole loss is zero": DISTILLED.format(frozen="predictor"),
    "preferences": DPO.format(reference="ref = policy"),
    "a divergence of logits, with a normalization": TEACHER.format(teacher="teacher = student"),
    "normal distributions in an object": NORMAL.format(anchor="mean"),
}
COPIES = {
    "a predictor of a random network": DISTILLED.format(frozen="nn.Linear(5, 3)"),
    "preferences": DPO.format(reference="ref = copy.deepcopy(policy).requires_grad_(False)"),
    "a teacher that was copied": TEACHER.format(teacher="teacher = copy.deepcopy(student).eval()"),
    "normal distributions in an object": NORMAL.format(anchor="copy.deepcopy(mean).requires_grad_(False)"),
    "a ratio, a divergence and clipped values over several epochs": """
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)
for rollout in range(2):
    x, advantage, returns = torch.randn(16, 4), torch.randn(16), torch.randn(16)
    with torch.no_grad():
        then = torch.distributions.Categorical(logits=actor(x))
        actions, values = then.sample(), critic(x).squeeze(1)
        old = then.log_prob(actions)
    for epoch in range(3):
        now = torch.distributions.Categorical(logits=actor(x))
        difference = now.log_prob(actions) - old
        ratio = difference.exp()
        value = critic(x).squeeze(1)
        clipped = values + (value - values).clamp(-0.2, 0.2)
        error = torch.max((value - returns).square(), (clipped - returns).square()).mean()
        nearness = (ratio - 1 - difference).mean()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() + error + 0.1 * nearness
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "one update with each new data": """
actor = nn.Linear(4, 3)
optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
for step in range(4):
    x, advantage = torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        then = torch.distributions.Categorical(logits=actor(x))
        actions = then.sample()
        old = then.log_prob(actions)
    new = torch.distributions.Categorical(logits=actor(x)).log_prob(actions)
    loss = -((new - old).exp() * advantage).mean() + 0.05 * (new - old).square().mean()
"""
    + TRAIN,
    "views with noise, dropout, another view, a rounded value, a value without its mean": """
net, code = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Tanh()), nn.Linear(6, 8)
guess = nn.Linear(8, 8)
optimizer = torch.optim.SGD([*net.parameters(), *code.parameters(), *guess.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(16, 6)
    one, two = code(x + 0.1 * torch.randn_like(x)), code(x + 0.1 * torch.randn_like(x))
    with torch.no_grad():
        again, clean = net(x), code(x)
    noisy = F.kl_div(one.log_softmax(1), clean.softmax(1), reduction="batchmean")
    cosine = -F.cosine_similarity(guess(one), two.detach()).mean()
    cosine = cosine - F.cosine_similarity(guess(two), one.detach()).mean()
    h = code(x)
    rounded = h + (h.round() - h).detach()
    centred = h - h.mean(1, keepdim=True).detach()
    loss = (net(x) - again).square().mean() + noisy + cosine + rounded.square().mean() + centred.abs().mean()
"""
    + TRAIN,
    "values of the same states, some of which are overwritten by targets": """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, following, actions, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8)
    with torch.no_grad():
        wanted = net(x)
        wanted[torch.arange(8), actions] = reward + 0.9 * net(following).amax(1)
    loss = F.mse_loss(net(x), wanted)
"""
    + TRAIN,
}


@pytest.mark.parametrize("shape", list(REFERENCES))
def test_a_reference_that_is_the_trained_model_comes_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + REFERENCES[shape] + TRAIN, "ratio_always_one", tmp_path)


@pytest.mark.parametrize("look", list(COPIES))
def test_comparisons_with_other_values_raise_no_alarm(look: str, tmp_path: Path) -> None:
    script = HEAD + COPIES[look] + ("" if "optimizer.step()" in COPIES[look] else TRAIN)
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
