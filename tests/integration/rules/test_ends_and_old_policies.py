"""Advantages that cross the ends of episodes, targets of the trained network, ratios with itself, slopes of actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ADVANTAGES = (
    HEAD
    + """
body, actor, critic = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*body.parameters(), *actor.parameters(), *critic.parameters()], lr=0.01)
N = 10
for step in range(3):
    states, rewards = torch.randn(N + 1, SHAPE 4), torch.randn(N, SHAPE)
    done = torch.zeros(N, SHAPE)
    done[3 + step], done[8] = 1.0, 1.0
    PREPARE
    with torch.no_grad():
        values = critic(torch.tanh(body(states))).squeeze(-1)
    advantages, last = torch.zeros(N, SHAPE), FIRST
    for t in reversed(range(N)):
        LOOP
    policy = torch.distributions.Categorical(logits=actor(torch.tanh(body(states[:N]))))
    returns = advantages + values[:N]
    score = policy.log_prob(policy.sample())
    now = critic(torch.tanh(body(states[:N]))).squeeze(-1)
    loss = -(score * advantages).mean() + (now - returns).square().mean()
"""
    + TRAIN
)


def of_advantages(loop: str, prepare: str = "pass", shape: str = "", first: str = "torch.zeros(())") -> str:
    script = ADVANTAGES.replace("LOOP", loop.replace("\n", "\n        ")).replace("FIRST", first)
    return script.replace("PREPARE", prepare.replace("\n", "\n    ")).replace("SHAPE", shape)


DELTA = "delta = rewards[t] + 0.99 * values[t + 1] * (1 - done[t]) - values[t]\n"
CROSSING = {
    "numbers": of_advantages(DELTA + "last = delta + 0.99 * 0.95 * last  # HERE\nadvantages[t] = last", first="0.0"),
    "several games": of_advantages(
        DELTA + "last = delta + 0.99 * 0.95 * last  # HERE\nadvantages[t] = last", shape="5,", first="torch.zeros(5)"
    ),
    "in a buffer": of_advantages(
        DELTA + "follows = advantages[t + 1] if t + 1 < N else 0.0\nadvantages[t] = delta + 0.94 * follows  # HERE"
    ),
    "flags in Python": of_advantages(
        "delta = rewards[t] + 0.99 * values[t + 1] * (1 - flags[t]) - values[t]\n"
        "last = delta + 0.94 * last  # HERE\nadvantages[t] = last",
        prepare="flags = done.tolist()",
    ),
    "discounts": of_advantages(
        "delta = rewards[t] + discount[t] * values[t + 1] - values[t]\n"
        "last = delta + 0.94 * last  # HERE\nadvantages[t] = last",
        prepare="discount = 0.99 * (1 - done)",
    ),
    "a flag of its own": of_advantages(
        "alive = 1.0 - done[t]\ndelta = rewards[t] - values[t] + alive * values[t + 1] * 0.99\n"
        "last = 0.94 * last + delta  # HERE\nadvantages[t] = last"
    ),
}
APART = {
    "the same flag": of_advantages(DELTA + "last = delta + 0.94 * (1 - done[t]) * last\nadvantages[t] = last"),
    "several games": of_advantages(
        DELTA + "last = delta + 0.94 * (1 - done[t]) * last\nadvantages[t] = last", shape="5,", first="torch.zeros(5)"
    ),
    "a product": of_advantages(
        "alive = 1.0 - done[t]\ndelta = rewards[t] + 0.99 * values[t + 1] * alive - values[t]\n"
        "last = delta + 0.94 * last * alive\nadvantages[t] = last"
    ),
    "in a buffer": of_advantages(
        DELTA + "follows = advantages[t + 1] if t + 1 < N else 0.0\n"
        "advantages[t] = delta + 0.94 * (1 - done[t]) * follows"
    ),
    "begun again": of_advantages(
        DELTA + "if done[t]:\n    last = torch.zeros(())\nlast = delta + 0.94 * last\nadvantages[t] = last"
    ),
    "one episode": of_advantages(
        DELTA + "last = delta + 0.94 * last\nadvantages[t] = last", prepare="done.zero_()\ndone[-1] = 1.0"
    ),
    "sparse rewards without an end": of_advantages(
        "delta = rewards[t] + 0.99 * values[t + 1] - values[t]\nlast = delta + 0.94 * last\nadvantages[t] = last",
        prepare="rewards = (rewards > 0).float()",
    ),
    "values of zero": of_advantages(
        "delta = rewards[t] + 0.99 * values[t + 1] * alive[t] - values[t]\n"
        "last = delta + 0.94 * alive[t] * last\nadvantages[t] = last",
        prepare="alive = torch.ones(N)\nif step == 0: nn.init.zeros_(critic.weight); nn.init.zeros_(critic.bias)",
    ),
    "flags of a network": of_advantages(
        "alive = F.relu(critic(torch.tanh(body(states[t + 1])))).squeeze(-1).clamp(max=1).detach() * (t != 4)\n"
        "delta = rewards[t] + 0.99 * values[t + 1] * alive - values[t]\nlast = delta + 0.94 * last\n"
        "advantages[t] = last",
    ),
    "no subtraction": of_advantages(
        "last = rewards[t] * (1 - done[t]) + 0.9 * last\nadvantages[t] = last",
    ),
}


GAMES = (
    HEAD
    + """
actor, critic = nn.Linear(2, 2), nn.Linear(2, 1)
optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.01)
place = torch.zeros(6)
for step in range(4):
    states, rewards, flags, scores, values = [], [], [], [], []
    for t in range(12):
        now = torch.stack([place, place ** 2], dim=1) / 3
        policy = torch.distributions.Categorical(logits=actor(now))
        action = policy.sample()
        place = place + action * 2.0 - 1 + 0.3 * torch.randn(6)
        done = place.abs() > 2
        place = torch.where(done, torch.zeros(6), place)
        rewards.append(done.float())
        flags.append(done.float())
        scores.append(policy.log_prob(action))
        values.append(critic(now).squeeze(1))
    with torch.no_grad():
        gained, last, follows = [], torch.zeros(6), values[-1]
        for t in reversed(range(12)):
            alive = 1 - flags[t]
            delta = rewards[t] + 0.99 * follows * alive - values[t]
            last = LAST
            follows = values[t]
            gained.insert(0, last)
        gained = torch.stack(gained)
    values = torch.stack(values)
    loss = -(torch.stack(scores) * gained).mean() + (values - gained - values.detach()).square().mean()
"""
    + TRAIN
)


def test_ends_of_episodes_that_come_of_drawn_actions_are_told(tmp_path: Path) -> None:
    assert_first_alarm(GAMES.replace("LAST", "delta + 0.94 * last  # HERE"), "advantages_cross_ends", tmp_path)
    assert not alarms(GAMES.replace("LAST", "delta + 0.94 * alive * last"), tmp_path)


@pytest.mark.parametrize("script", CROSSING.values(), ids=CROSSING)
def test_advantages_that_cross_the_end_of_an_episode_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "advantages_cross_ends", tmp_path)


@pytest.mark.parametrize("script", APART.values(), ids=APART)
def test_advantages_of_single_episodes_are_right(script: str, tmp_path: Path) -> None:
    assert "advantages_cross_ends" not in {each.cause for each in alarms(script, tmp_path)}


TARGETS = (
    HEAD
    + """
network, target = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), None
target = copy.deepcopy(network).requires_grad_(False)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for step in range(8):
    states, following, rewards, done = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16), torch.rand(16) < 0.1
    with torch.no_grad():
        BEST
        wanted = rewards + 0.9 * best * (~done)
    loss = F.smooth_l1_loss(network(states)[:, 0], wanted)
"""
    + TRAIN
)
HARD = "    if step % 2:\n        target.load_state_dict(network.state_dict())\n"
SOFT = (
    "    with torch.no_grad():\n        for t, p in zip(target.parameters(), network.parameters()):\n"
    "            t.mul_(0.9).add_(0.1 * p)\n"
)
OWN = "best = network(following).max(1).values  # HERE"
DOUBLE = "best = target(following).gather(1, network(following).argmax(1, keepdim=True)).squeeze(1)"


@pytest.mark.parametrize("update", [HARD, SOFT])
def test_a_target_network_that_nothing_asks_is_told(update: str, tmp_path: Path) -> None:
    assert_first_alarm(TARGETS.replace("BEST", OWN) + update, "target_never_updated", tmp_path)


@pytest.mark.parametrize(
    ("best", "end"),
    [
        ("best = target(following).max(1).values", HARD),
        (DOUBLE, SOFT),
        ("best = network(following).max(1).values", ""),
        (OWN.partition("  #")[0], SOFT + "print(target(torch.randn(2, 4)))\n"),
        (OWN.partition("  #")[0], SOFT + "torch.save(target.state_dict(), '/dev/null')\n"),
    ],
    ids=["asked", "for two", "none", "an average to evaluate", "an average to keep"],
)
def test_target_networks_that_are_asked_or_kept_are_right(best: str, end: str, tmp_path: Path) -> None:
    assert not alarms(TARGETS.replace("BEST", best) + end, tmp_path)


TWO_HEADS = (
    HEAD
    + """
class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)

policy, old_policy = ActorCritic(), ActorCritic()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(8):
    old_policy.load_state_dict(policy.state_dict())
    states, following, rewards = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=old_policy.actor(states))
        actions = old.sample()
        wanted = rewards + 0.9 * policy.critic(following).squeeze(1)
        gained = wanted - policy.critic(states).squeeze(1)
        before = old.log_prob(actions)
    now = torch.distributions.Categorical(logits=policy.actor(states)).log_prob(actions)
    loss = F.mse_loss(policy.critic(states).squeeze(1), wanted) - ((now - before).exp() * gained).mean()
"""
    + TRAIN
)


def test_an_old_policy_that_acts_and_whose_values_nothing_asks_is_right(tmp_path: Path) -> None:
    assert not alarms(TWO_HEADS, tmp_path)


RATIOS = (
    HEAD
    + """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for rollout in range(3):
    states, advantages = torch.randn(32, 4), torch.randn(32)
    with torch.no_grad():
        all_old = F.log_softmax(policy(states), 1)
        actions = torch.multinomial(all_old.exp(), 1)
        old = all_old.gather(1, actions).squeeze(1)
    for epoch in range(EPOCHS):
        new = F.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)
        RATIO
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
CLIPPED = "loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()"


@pytest.mark.parametrize(
    "ratio", ["ratio = torch.exp(new - new.detach())  # HERE", "ratio = (new - new.detach()).exp()  # HERE"]
)
def test_a_clipped_ratio_with_itself_is_told_when_steps_use_the_same_actions(ratio: str, tmp_path: Path) -> None:
    script = RATIOS.replace("EPOCHS", "4").replace("RATIO", f"{ratio}\n        {CLIPPED}")
    assert_first_alarm(script, "ratio_always_one", tmp_path)


@pytest.mark.parametrize(
    ("epochs", "lines"),
    [
        ("4", f"ratio = torch.exp(new - old)\n        {CLIPPED}"),
        ("1", f"ratio = torch.exp(new - new.detach())\n        {CLIPPED}"),
        ("4", "ratio = torch.exp(new - new.detach())\n        loss = -(ratio * advantages).mean()"),
    ],
    ids=["as meant", "new actions each time", "only the gradient"],
)
def test_ratios_that_are_clipped_in_earnest_or_not_at_all_are_right(epochs: str, lines: str, tmp_path: Path) -> None:
    script = RATIOS.replace("EPOCHS", epochs).replace("RATIO", lines)
    assert "ratio_always_one" not in {each.cause for each in alarms(script, tmp_path)}


MANY = (
    HEAD
    + """
policy = nn.Linear(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def score(states, actions):
    return F.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)

for rollout in range(8):
    states, advantages = torch.randn(48, 4), torch.randn(48)
    with torch.no_grad():
        actions = torch.multinomial(policy(states).softmax(1), 1)
        before = score(states, actions)
    for epoch in range(4):
        for rows in torch.randperm(48).split(16):
            with torch.no_grad():
                old = OLD
            ratio = (score(states[rows], actions[rows]) - old).exp()
            loss = -torch.min(ratio * advantages[rows], ratio.clamp(0.8, 1.2) * advantages[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
)


def test_old_values_computed_anew_are_told_where_only_some_of_these_calls_are_recorded(tmp_path: Path) -> None:
    anew = MANY.replace("OLD", "score(states[rows], actions[rows])  # HERE")
    assert_first_alarm(anew, "ratio_always_one", tmp_path)
    assert not alarms(MANY.replace("OLD", "before[rows]"), tmp_path)


SQUASHED = (
    HEAD
    + """
policy, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
for step in range(4):
    states = torch.randn(16, 4)
    mean, log_std = policy(states).chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, log_std.exp())
    u = normal.rsample()
    a = torch.tanh(u)
    score = normal.log_prob(u)
    SLOPE
    loss = (0.2 * score - critic(torch.cat([states, a], dim=1))).mean()
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "slope",
    [
        "score = score - torch.log(1 - torch.tanh(a) ** 2 + 1e-6)  # HERE",
        "score = score - (1 - a.tanh().pow(2)).clamp(min=1e-6).log()  # HERE",
        "score = score - 2 * (0.6931 - a - F.softplus(-2 * a))  # HERE",
    ],
)
def test_the_slope_at_the_action_is_told(slope: str, tmp_path: Path) -> None:
    assert_first_alarm(SQUASHED.replace("SLOPE", slope), "squash_not_counted", tmp_path)


@pytest.mark.parametrize(
    "slope",
    [
        "score = score - torch.log(1 - a ** 2 + 1e-6)",
        "score = score - torch.log(1 - torch.tanh(u) ** 2 + 1e-6)",
        "score = score - 2 * (0.6931 - u - F.softplus(-2 * u))",
    ],
)
def test_the_slope_at_what_was_squashed_is_right(slope: str, tmp_path: Path) -> None:
    assert not alarms(SQUASHED.replace("SLOPE", slope), tmp_path)
