"""Losses that make the only fit of a model worse, and players of which none plays against the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

MAXIMIZED = "fit_maximized"


def lines_of(cause: str, script: str, folder: Path) -> list[int]:
    """The lines at which a script has this alarm."""
    return [each.location.line for each in alarms(script, folder) if each.cause == cause and each.location]


def marked(script: str) -> list[int]:
    """The line that ends with a mark."""
    return [number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE")]


CLASSIFIER = """
from torch.distributions import Categorical, Normal
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1{options})
for step in range(3):
    x, labels, y = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16, 3)
    out = model(x)
"""
WORSE = (
    "    loss = -F.cross_entropy(out, labels)  # HERE",
    "    error = nn.MSELoss()(out, y)\n    loss = 0.01 * model[0].weight.square().sum() - error  # HERE",
    "    loss = -((out - y) ** 2).mean()  # HERE",
    "    nll = F.log_softmax(out, -1).gather(1, labels[:, None]).squeeze(1)  # HERE\n    loss = nll.mean()",
    "    log_p = Normal(out, 1.0).log_prob(y)\n    loss = log_p.sum(1).mean()  # HERE",
    "    loss = 0\n    for k in range(3):\n        loss -= F.mse_loss(out[:, k], y[:, k])  # HERE",
)
BETTER = (
    "    loss = F.cross_entropy(out, labels)",
    "    loss = -Categorical(logits=out).log_prob(labels).mean()",
    "    log_p = F.log_softmax(out, -1)\n"
    "    loss = -(0.9 * log_p[torch.arange(16), labels].mean() + 0.1 * log_p.mean())",
    "    reward = -(out - y).square().sum(1)\n    loss = -reward.mean()",
    "    loss = F.cross_entropy(out[:8], labels[:8]) - 0.1 * F.cross_entropy(out[8:], labels[8:])",
    "    energy = lambda z: (model(z) - 1).square().sum(1)\n    loss = energy(x).mean() - energy(x + 1).mean()",
)


@pytest.mark.parametrize("loss", WORSE)
def test_a_loss_that_makes_the_only_fit_worse_is_told(loss: str, tmp_path: Path) -> None:
    script = HEAD + CLASSIFIER.format(options="") + loss + TRAIN
    assert lines_of(MAXIMIZED, script, tmp_path) == marked(script)


@pytest.mark.parametrize("loss", BETTER)
def test_a_loss_that_improves_a_fit_is_right_also_beside_one_that_it_worsens(loss: str, tmp_path: Path) -> None:
    assert not lines_of(MAXIMIZED, HEAD + CLASSIFIER.format(options="") + loss + TRAIN, tmp_path)


def test_steps_up_the_gradient_are_left_alone(tmp_path: Path) -> None:
    script = HEAD + CLASSIFIER.format(options=", maximize=True") + WORSE[0] + TRAIN
    assert not lines_of(MAXIMIZED, script, tmp_path)


def test_gradients_that_are_turned_by_hand_are_left_alone(tmp_path: Path) -> None:
    turned = "\n    for p in model.parameters():\n        p.grad.neg_()\n    optimizer.step()"
    script = HEAD + CLASSIFIER.format(options="") + WORSE[0] + TRAIN.replace("\n    optimizer.step()", turned)
    assert not lines_of(MAXIMIZED, script, tmp_path)


ADVERSARIES = (
    # what changes the inputs, to make a classifier fail that another optimizer trains
    """
other = nn.Linear(4, 4)
rival = torch.optim.SGD(other.parameters(), lr=0.1)
for step in range(3):
    x, labels = torch.randn(16, 4), torch.randint(0, 3, (16,))
    harder = -F.cross_entropy(model(other(x)), labels)
    rival.zero_grad()
    harder.backward()
    rival.step()
    loss = F.cross_entropy(model(other(x).detach()), labels)
""",
    # a copy whose weights go up the gradient, and are put back at each step
    """
other = copy.deepcopy(model)
rival = torch.optim.SGD(other.parameters(), lr=0.1)
for step in range(3):
    x, labels = torch.randn(16, 4), torch.randint(0, 3, (16,))
    other.load_state_dict(model.state_dict())
    harder = -F.cross_entropy(other(x), labels)
    rival.zero_grad()
    harder.backward()
    rival.step()
    loss = F.cross_entropy(model(x), labels)
""",
    # a change of the inputs that makes a fixed model fail
    """
other = nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([other], lr=0.1)
for step in range(3):
    x, labels = torch.randn(16, 4), torch.randint(0, 3, (16,))
    loss = -F.cross_entropy(model(x + other), labels)
""",
)


@pytest.mark.parametrize("rest", ADVERSARIES)
def test_adversaries_are_left_alone(rest: str, tmp_path: Path) -> None:
    model = "model = nn.Linear(4, 3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    assert not lines_of(MAXIMIZED, HEAD + model + rest + TRAIN, tmp_path)


POLICY = """
from torch.distributions import Categorical
policy, value = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=0.1)
for step in range(3):
    states = torch.randn(16, 4)
    chosen = Categorical(logits=policy(states))
    actions = chosen.sample()
    log_prob, rewards = chosen.log_prob(actions), states[:, 0] * (actions - 1)
    v = value(states).squeeze(1)
    fitted = F.mse_loss(v, rewards)
"""
UNREWARDED = (
    "    advantages = rewards - v.detach()\n    loss = (log_prob * advantages).mean() + fitted  # HERE",
    "    returns = rewards - rewards.mean()\n"
    "    loss = (log_prob * returns).mean() - 0.01 * chosen.entropy().mean() + fitted  # HERE",
    "    gains = (rewards - v).detach()\n    ratio = (log_prob - log_prob.detach()).exp()\n"
    "    loss = torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean() + fitted  # HERE",
)
REWARDED = (
    "    advantages = rewards - v.detach()\n    loss = -(log_prob * advantages).mean() + fitted",
    "    cost = -rewards\n    loss = (log_prob * (cost - cost.mean())).mean() + fitted",
    "    loss = (log_prob * (v.detach() - rewards)).mean() + fitted",
    "    gains = (rewards - v).detach()\n    ratio = (log_prob - log_prob.detach()).exp()\n"
    "    loss = torch.max(-ratio * gains, -ratio.clamp(0.8, 1.2) * gains).mean() + fitted",
)


@pytest.mark.parametrize("loss", UNREWARDED)
def test_a_policy_that_unlearns_what_was_rewarded_is_told(loss: str, tmp_path: Path) -> None:
    script = HEAD + POLICY + loss + TRAIN
    assert lines_of(MAXIMIZED, script, tmp_path) == marked(script)


@pytest.mark.parametrize("loss", REWARDED)
def test_a_policy_that_learns_from_rewards_or_costs_is_right(loss: str, tmp_path: Path) -> None:
    assert not lines_of(MAXIMIZED, HEAD + POLICY + loss + TRAIN, tmp_path)


EPISODES = """
from torch.distributions import Categorical
policy = nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for episode in range(3):
    log_probs, rewards = [], []
    for t in range(5):
        chosen = Categorical(logits=policy(torch.randn(4)))
        action = chosen.sample()
        log_probs.append(chosen.log_prob(action))
        rewards.append(1.0 if action.item() else -0.5)
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total = reward + 0.9 * total
        returns.insert(0, total)
    loss = 0
    for log_prob, ret in zip(log_probs, returns):
        loss = loss {sign} log_prob * ret{mark}
"""


def test_returns_that_are_numbers_are_told(tmp_path: Path) -> None:
    script = HEAD + EPISODES.format(sign="+", mark="  # HERE") + TRAIN
    assert lines_of(MAXIMIZED, script, tmp_path) == marked(script)


def test_returns_that_are_numbers_of_both_signs_are_right(tmp_path: Path) -> None:
    assert not lines_of(MAXIMIZED, HEAD + EPISODES.format(sign="-", mark="") + TRAIN, tmp_path)


AGREE = "players_agree"
PLAYERS = """
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    def forward(self, x):
        return self.net(x).squeeze(1)
G, D = nn.Linear(4, 2), Critic()
for_g, for_d = torch.optim.SGD(G.parameters(), lr=0.01), torch.optim.SGD(D.parameters(), lr=0.01)
ones, zeros, bce = torch.ones(16), torch.zeros(16), nn.BCEWithLogitsLoss()
for step in range(3):
    real, z = torch.randn(16, 2) + 2, torch.randn(16, 4)
    fake = G(z)
    for_d.zero_grad()
{own}
    for_d.step()
    loss = {asked}
    for_g.zero_grad()
    loss.backward()
    for_g.step()
"""
IN_TWO_PARTS = "    bce(D(real), ones).backward()\n    bce(D(fake.detach()), zeros).backward()"
SQUARES = "    (0.5 * ((D(real) - 1) ** 2).mean() + 0.5 * (D(fake.detach()) ** 2).mean()).backward()"
MARGINS = "    (F.relu(1 - D(real)).mean() + F.relu(1 + D(fake.detach())).mean()).backward()"
LOGARITHMS = "    (-torch.log(D(real).sigmoid()) - torch.log(1 - D(fake.detach()).sigmoid())).mean().backward()"
JOINED = "    bce(D(torch.cat([real, fake.detach()])), torch.cat([ones, zeros])).backward()"
JUDGED = (
    "    def judge(out, side):\n        return F.softplus(-side * out).mean()\n"
    "    (judge(D(real), 1) + judge(D(fake.detach()), -1)).backward()"
)
AGREEING = (
    (JUDGED, "judge(D(fake), -1)"),
    (IN_TWO_PARTS, "bce(D(fake), zeros)"),
    (SQUARES, "10 * F.l1_loss(fake, real) + D(fake).square().mean()"),
    (MARGINS, "D(fake).mean()"),
    (LOGARITHMS, "F.softplus(D(fake)).mean()"),
    (LOGARITHMS, "torch.log(D(fake).sigmoid()).mean()"),
)
OPPOSED = (
    (JUDGED, "judge(D(fake), 1)"),
    (IN_TWO_PARTS, "bce(D(fake), ones)"),
    (IN_TWO_PARTS, "-bce(D(fake), zeros)"),
    (
        IN_TWO_PARTS.replace("ones", "targets").replace("zeros", "ones").replace("targets", "zeros"),
        "bce(D(fake), zeros)",
    ),
    (SQUARES, "10 * F.l1_loss(fake, real) + (D(fake) - 1).square().mean()"),
    (MARGINS, "-D(fake).mean()"),
    (LOGARITHMS, "torch.log(1 - D(fake).sigmoid()).mean()"),
    (JOINED, "bce(D(fake), ones)"),
)


@pytest.mark.parametrize(("own", "asked"), AGREEING)
def test_a_generator_that_helps_its_discriminator_is_told(own: str, asked: str, tmp_path: Path) -> None:
    script = HEAD + PLAYERS.format(own=own, asked=f"{asked}  # HERE")
    assert lines_of(AGREE, script, tmp_path) == marked(script)


@pytest.mark.parametrize(("own", "asked"), OPPOSED)
def test_a_generator_that_asks_the_opposite_is_right(own: str, asked: str, tmp_path: Path) -> None:
    assert not lines_of(AGREE, HEAD + PLAYERS.format(own=own, asked=asked), tmp_path)


ACTOR = """
actor, critic, other = nn.Linear(4, 2), nn.Linear(6, 1), nn.Linear(6, 1)
of_actor = torch.optim.SGD(actor.parameters(), lr=0.01)
of_critics = torch.optim.SGD([*critic.parameters(), *other.parameters()], lr=0.01)
for step in range(3):
    s, a = torch.randn(16, 4), torch.rand(16, 2)
    {name} = -(a - s[:, :2]).square().sum(1, keepdim=True)
    with torch.no_grad():
        target = {name} + 0.9 * critic(torch.cat([s + 0.1, actor(s + 0.1)], 1))
    sa = torch.cat([s, a], 1)
    of_critics.zero_grad()
    (F.mse_loss(critic(sa), target) + F.mse_loss(other(sa), target)).backward()
    of_critics.step()
    now = torch.cat([s, actor(s)], 1)
    loss = {loss}
    of_actor.zero_grad()
    loss.backward()
    of_actor.step()
"""
LOWERED = (
    ("reward", "critic(now).mean()"),
    ("r", "torch.min(critic(now), other(now)).mean()"),
    ("rewards", "(0.1 * actor(s).square().sum(1) + critic(now).squeeze(1)).mean()"),
)
RAISED = (
    ("reward", "-critic(now).mean()"),
    ("r", "(0.1 * actor(s).square().sum(1, keepdim=True) - torch.min(critic(now), other(now))).mean()"),
    ("cost", "critic(now).mean()"),
)


@pytest.mark.parametrize(("name", "loss"), LOWERED)
def test_an_actor_that_lowers_the_value_of_its_actions_is_told(name: str, loss: str, tmp_path: Path) -> None:
    script = HEAD + ACTOR.format(name=name, loss=f"{loss}  # HERE")
    assert lines_of(AGREE, script, tmp_path) == marked(script)


@pytest.mark.parametrize(("name", "loss"), RAISED)
def test_an_actor_that_raises_values_or_lowers_costs_is_right(name: str, loss: str, tmp_path: Path) -> None:
    assert not lines_of(AGREE, HEAD + ACTOR.format(name=name, loss=loss), tmp_path)


OPPONENTS = """
from torch.distributions import Categorical
one, other, critic = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(8, 1)
optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (one, other, critic)]
for step in range(3):
    s, u, v = torch.randn(16, 4), torch.rand(16, 2), torch.rand(16, 2)
    rewards = (u * v).sum(1, keepdim=True)
    advantages = (rewards - rewards.mean()).squeeze(1)
    mine, theirs = Categorical(logits=one(s)), Categorical(logits=other(s))
    losses = ({losses})
    for optimizer, loss in zip(optimizers, losses):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
"""
OF_VALUES = """
        lambda: -critic(torch.cat([s, one(s), v], 1)).mean(),
        lambda: critic(torch.cat([s, u, other(s)], 1)).mean(),
        lambda: F.mse_loss(critic(torch.cat([s, u, v], 1)), rewards),
    """
OF_POLICIES = """
        lambda: -(mine.log_prob(mine.sample()) * advantages).mean(),
        lambda: (theirs.log_prob(theirs.sample()) * advantages).mean(),
    """


@pytest.mark.parametrize("losses", [OF_VALUES, OF_POLICIES])
def test_of_two_players_one_may_get_what_the_other_loses(losses: str, tmp_path: Path) -> None:
    found = {finding.cause for finding in alarms(HEAD + OPPONENTS.format(losses=losses), tmp_path)}
    assert found.isdisjoint({MAXIMIZED, AGREE})


AGENT = """
from torch.distributions import Categorical
class Agent:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.01)
        self.log_probs, self.rewards = [], []
    def act(self, state):
        chosen = Categorical(logits=self.policy(state))
        action = chosen.sample()
        self.log_probs.append(chosen.log_prob(action))
        return action.item()
    def learn(self):
        total, returns, losses = 0, [], []
        for reward in self.rewards[::-1]:
            total = reward + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        for log_prob, each in zip(self.log_probs, returns):
            losses.append({sign}log_prob * each){mark}
        self.optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        self.optimizer.step()
        self.log_probs, self.rewards = [], []

agent = Agent()
for episode in range(5):
    for t in range(5):
        agent.rewards.append(1.0 if agent.act(torch.randn(4)) else float(torch.rand(1)))
    agent.learn()
"""


def test_an_agent_with_methods_that_adds_its_log_probabilities_is_told(tmp_path: Path) -> None:
    script = HEAD + AGENT.format(sign="", mark="  # HERE")
    assert lines_of(MAXIMIZED, script, tmp_path) == marked(script)


def test_an_agent_with_methods_that_subtracts_them_is_right(tmp_path: Path) -> None:
    assert not lines_of(MAXIMIZED, HEAD + AGENT.format(sign="-", mark=""), tmp_path)


DOMAINS = """
class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return {factor} * ctx.strength * gradient, None

def turned(h, strength):
    h = h * 1.0
    h.register_hook(lambda gradient: {factor} * strength * gradient)
    return h

def mirrored(h, strength):
    return 2 * h.detach() - h

def mixed(h, strength):
    return (1 + strength) * h.detach() - strength * h if strength else h.detach() - 0.1 * (h - h.detach())

def through(h, strength):
    return h.detach() + (h - h.detach())

features, head, domain = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*features.parameters(), *head.parameters(), *domain.parameters()], lr=0.1)
for step in range(4):
    x, labels, where_from = torch.randn(16, 4), torch.randint(0, 3, (16,)), (torch.rand(16) > 0.4).float()
    h = torch.relu(features(x))
    told = domain({turn}(h, step / 4)).squeeze(1)
    error = F.binary_cross_entropy_with_logits(told, where_from)
"""


@pytest.mark.parametrize("turn", ["Turn.apply", "turned", "mirrored", "mixed"])
def test_an_error_that_is_reversed_and_subtracted_is_told(turn: str, tmp_path: Path) -> None:
    loss = "    loss = F.cross_entropy(head(h), labels) - 0.3 * error  # HERE"
    script = HEAD + DOMAINS.format(turn=turn, factor=-1) + loss + TRAIN
    assert lines_of("reversed_twice", script, tmp_path) == marked(script)


@pytest.mark.parametrize(
    ("turn", "factor", "loss"),
    [
        ("Turn.apply", -1, "F.cross_entropy(head(h), labels) + 0.3 * error"),
        ("turned", -1, "F.cross_entropy(head(h), labels) + error"),
        ("Turn.apply", 1, "F.cross_entropy(head(h), labels) - error"),
        ("mirrored", 1, "F.cross_entropy(head(h), labels) + error"),
        ("mixed", 1, "F.cross_entropy(head(h), labels) + 0.3 * error"),
        ("through", 1, "F.cross_entropy(head(h), labels) - error"),
        ("Turn.apply", -1, "error - 0.1 * torch.softmax(head(h), 1).max(1).values.mean()"),
        (
            "Turn.apply",
            -1,
            "F.binary_cross_entropy_with_logits(domain(h.detach()).squeeze(1), where_from) - 0.1 * error",
        ),
    ],
)
def test_a_reversal_alone_or_a_minus_alone_is_right(turn: str, factor: int, loss: str, tmp_path: Path) -> None:
    script = HEAD + DOMAINS.format(turn=turn, factor=factor) + f"    loss = {loss}" + TRAIN
    assert not lines_of("reversed_twice", script, tmp_path)
