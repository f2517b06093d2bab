"""Flags for the end of an episode that are turned round, squashed actions with the log-probability of something else,
and dropout of a model's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


BOOTSTRAP = """
network, target_network = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for step in range(3):
    states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
    ends = torch.zeros(8)
    ends[step] = 1.0
    {target}
    loss = F.smooth_l1_loss(network(states)[:, 0], target)
"""
TURNED = (
    "done = ends\n    with torch.no_grad():\n"
    "        target = rewards + 0.9 * done * target_network(following).max(1).values  # HERE",
    "terminated = ends.bool()\n    with torch.no_grad():\n        later = target_network(following).amax(dim=1)\n"
    "        later = later * terminated.float()  # HERE\n        target = rewards + 0.9 * later",
)
AS_MEANT = (
    "done = ends\n    target = (rewards + 0.9 * (1 - done) * target_network(following).max(1).values).detach()",
    "not_done = 1 - ends\n    target = (rewards + 0.9 * not_done * target_network(following).max(1).values).detach()",
    "done = 1 - ends\n    target = (rewards + 0.9 * done * target_network(following).max(1).values).detach()",
    "weights = ends\n    target = (rewards + weights * target_network(following).max(1).values).detach()",
    "done = ends\n    target = (rewards - 5 * done + 0.9 * target_network(following).amax(1)).detach()",
)


@pytest.mark.parametrize("target", TURNED)
def test_values_that_count_only_at_the_end_of_an_episode_are_told(target: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + BOOTSTRAP.format(target=target) + TRAIN, "bootstraps_at_ends", tmp_path)


@pytest.mark.parametrize("target", AS_MEANT)
def test_flags_that_are_turned_round_or_mean_something_else_are_right(target: str, tmp_path: Path) -> None:
    assert "bootstraps_at_ends" not in causes(HEAD + BOOTSTRAP.format(target=target) + TRAIN, tmp_path)


ACTIONS = """
policy, critic = nn.Linear(4, 4), nn.Linear(6, 1).requires_grad_(False)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
for step in range(3):
    states = torch.randn(8, 4)
    mean, log_std = policy(states).chunk(2, dim=1)
    std = log_std.clamp(-5, 2).exp()
    distribution = torch.distributions.Normal(mean, std)
    {action}
    loss = (0.2 * score.sum(1, keepdim=True) - critic(torch.cat([states, action], dim=1))).mean()
"""
NOT_COUNTED = (
    "u = distribution.rsample()\n    action, score = torch.tanh(u), distribution.log_prob(u)  # HERE",
    "u = mean + std * torch.randn_like(std)\n    action = u.tanh()\n"
    "    score = -0.5 * ((u - mean) / std).pow(2) - log_std  # HERE",
    "u = torch.addcmul(mean, std, torch.randn_like(mean))\n    action = u.tanh()\n"
    "    score = -F.gaussian_nll_loss(mean, u, std.square(), full=True, reduction='none')  # HERE",
    "u = torch.addcmul(mean, std, torch.randn_like(mean))\n    action = u.tanh()\n"
    "    score = -0.5 * torch.mul(mean - u, torch.exp(-log_std)).square() - log_std  # HERE",
    "u = mean + std * torch.randn_like(std)\n    action = u.tanh()\n"
    "    score = -F.mse_loss(u, mean, reduction='none') / (2 * std.square()) - log_std  # HERE",
    "u = mean + std * torch.randn_like(std)\n    action, far = u.tanh(), (u - mean) / std\n"
    "    score = -0.5 * torch.einsum('nd,nd->n', far, far)[:, None] - log_std  # HERE",
)
COUNTED = (
    "u = distribution.rsample()\n    action = torch.tanh(u)\n"
    "    score = distribution.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)",
    "u = distribution.rsample()\n    action = torch.tanh(u)\n"
    "    score = distribution.log_prob(u) - 2 * (0.6931 - u - F.softplus(-2 * u))",
    "tanh = torch.distributions.TanhTransform(cache_size=1)\n"
    "    squashed = torch.distributions.TransformedDistribution(distribution, tanh)\n"
    "    action = squashed.rsample()\n    score = squashed.log_prob(action)",
    "action = distribution.rsample()\n    score = distribution.log_prob(action)",
    "u = torch.addcmul(mean, std, torch.randn_like(mean))\n    action = u.tanh()\n"
    "    score = -F.gaussian_nll_loss(mean, u, std.square(), reduction='none') - torch.log1p(-action.square() + 1e-6)",
    "u = mean + std * torch.randn_like(std)\n    action = u.tanh()\n"
    "    score = F.mse_loss(u, u.detach(), reduction='none') + (mean - 1).square()",
)


@pytest.mark.parametrize("action", NOT_COUNTED)
def test_a_squashed_action_with_the_probability_of_what_was_squashed_is_told(action: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ACTIONS.format(action=action) + TRAIN, "squash_not_counted", tmp_path)


def test_a_step_of_the_critic_between_an_action_and_its_loss_hides_nothing(tmp_path: Path) -> None:
    action = NOT_COUNTED[0] + "\n    fit = (reads(action.detach()) - 1).square().mean()\n"
    action += "    of_critic.zero_grad()\n    fit.backward()\n    of_critic.step()"
    critic = "for step in range(3):\n"
    made = "reads = nn.Linear(2, 1)\nof_critic = torch.optim.SGD(reads.parameters(), lr=0.1)\n"
    script = ACTIONS.format(action=action).replace(critic, made + critic)
    assert_first_alarm(HEAD + script + TRAIN, "squash_not_counted", tmp_path)


@pytest.mark.parametrize("action", COUNTED)
def test_squashed_actions_with_their_own_probability_are_right(action: str, tmp_path: Path) -> None:
    assert "squash_not_counted" not in causes(HEAD + ACTIONS.format(action=action) + TRAIN, tmp_path)


ANSWERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.3)
    def forward(self, x):
        {forward}
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
"""


def test_answers_that_dropout_throws_away_are_told(tmp_path: Path) -> None:
    forward = "return self.dropout(self.last(F.relu(self.first(x))))  # HERE"
    assert_first_alarm(HEAD + ANSWERS.format(forward=forward) + TRAIN, "dropout_before_loss", tmp_path)


HOOKED = """
def drop(module, given, result):
    return F.dropout(result, 0.2, training=module.training)

model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
for each in {layers}:
    if isinstance(each, nn.Linear):
        each.register_forward_hook(drop)  # HERE
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
"""


def test_a_hook_that_drops_answers_is_told_where_it_is_registered(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + HOOKED.format(layers="model") + TRAIN, "dropout_before_loss", tmp_path)
    assert "dropout_before_loss" not in causes(HEAD + HOOKED.format(layers="model[:-1]") + TRAIN, tmp_path)


@pytest.mark.parametrize(
    "forward",
    [
        "return self.last(self.dropout(F.relu(self.first(x))))",
        "return F.dropout(self.last(F.relu(self.first(x))), 0.0)",
        "return self.last(self.dropout(F.relu(self.first(x)))) + 0.1 * self.dropout(self.last(self.first(x)))",
    ],
)
def test_dropout_before_the_last_layer_is_right(forward: str, tmp_path: Path) -> None:
    assert "dropout_before_loss" not in causes(HEAD + ANSWERS.format(forward=forward) + TRAIN, tmp_path)


MEMORY = """
class World:
    def __init__(self):
        self.state = torch.zeros(3)
    def reset(self):
        self.state = torch.randn(3)
        return self.state
    def step(self):
        self.state += 0.1 * torch.randn(3)
        return self.state
world, memory = World(), []
network = nn.Linear(3, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(8):
    state = world.reset(){copy}
    following = world.step(){copy}
    memory.append((state, torch.randn(()), following))  # HERE
    states, rewards, later = (torch.stack(each) for each in zip(*memory[-4:]))
    with torch.no_grad():
        target = rewards + 0.9 * network(later).max(1).values
    loss = F.smooth_l1_loss(network(states)[:, 0], target)
"""


def test_a_memory_in_which_states_are_their_own_next_states_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MEMORY.format(copy="") + TRAIN, "next_state_is_state", tmp_path)


def test_copies_of_states_and_two_networks_of_one_input_are_right(tmp_path: Path) -> None:
    assert "next_state_is_state" not in causes(HEAD + MEMORY.format(copy=".clone()") + TRAIN, tmp_path)
    distillation = """
teacher, network = nn.Linear(3, 2), nn.Linear(3, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(8, 3)
    with torch.no_grad():
        target = torch.randn(8, 2) + teacher(x.clone())
    loss = F.mse_loss(network(x), target)
"""
    assert "next_state_is_state" not in causes(HEAD + distillation.replace("x.clone()", "x") + TRAIN, tmp_path)


PICTURES = """
class Game:
    def reset(self):
        self.picture = torch.full((6, 6), 30.0)
        self.place = torch.randint(5, ()).item()
        return self.drawn()
    def step(self):
        self.place += 1
        return self.drawn()
    def drawn(self):
        self.picture[:] = {background}
        self.picture[self.place, 2] = 220.0
        return self.picture{copy}
game, memory = Game(), []
network = nn.Sequential({layers})
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(8):
    state = game.reset()
    following = game.step()
    memory.append((state, torch.randn(()), following))
    states, rewards, later = (torch.stack(each) for each in zip(*memory[-4:]))
    with torch.no_grad():
        target = rewards + 0.9 * network({scaled}).max(1).values
    loss = F.smooth_l1_loss(network({scaled})[:, 0].reshape(-1), target)
"""
DENSE = "nn.Flatten(), nn.Linear(36, 2)"
SEEN = "nn.Unflatten(1, (1, 6)), nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 2)"


@pytest.mark.parametrize(
    ("layers", "scaled"), [(DENSE, "{} / 255.0"), (SEEN, "{} / 255.0"), (DENSE, "({} - 41.3) / 38.9")]
)
def test_pictures_of_a_game_all_have_the_same_colours(layers: str, scaled: str, tmp_path: Path) -> None:
    program = PICTURES.replace("network({scaled})[", f"network({scaled.format('states')})[")
    program = program.replace("{scaled}", scaled.format("later"))
    healthy = program.format(background="30.0", copy=".clone()", layers=layers)
    assert "next_state_is_state" not in causes(HEAD + healthy + TRAIN, tmp_path)
    shared = program.format(background="30.0 + torch.rand(6, 6)", copy="", layers=layers)
    assert "next_state_is_state" in causes(HEAD + shared + TRAIN, tmp_path)


REPTILE = """
model = nn.Linear(3, 1)
for task in range(4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = {start}
    for step in range(2):
        loss = (model(torch.randn(8, 3)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    end = {{name: each for name, each in model.state_dict().items()}}
    with torch.no_grad():
        moved = {{name: start[name] + 0.5 * (end[name] - start[name]) for name in start}}
    model.load_state_dict(moved)
"""


def test_weights_that_were_kept_without_a_copy_have_no_difference(tmp_path: Path) -> None:
    script = HEAD + REPTILE.format(start="model.state_dict()  # HERE")
    assert_first_alarm(script, "difference_with_itself", tmp_path)


@pytest.mark.parametrize(
    "start",
    ["copy.deepcopy(model.state_dict())", "{name: each.detach().clone() for name, each in model.named_parameters()}"],
)
def test_copies_of_weights_have_a_difference(start: str, tmp_path: Path) -> None:
    assert "difference_with_itself" not in causes(HEAD + REPTILE.format(start=start), tmp_path)


def test_a_draw_is_told_when_its_block_ran_so_often_that_calls_were_left_out(tmp_path: Path) -> None:
    script = """
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
prior = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
for step in range(75):
    x = torch.randn(8, 6)
    mean, log_std = encoder(x).chunk(2, dim=1)
    posterior = torch.distributions.Normal(mean, log_std.exp())
    z = posterior.sample()  # HERE
    loss = (decoder(z) - x).square().sum(1).mean() + torch.distributions.kl_divergence(posterior, prior).sum(1).mean()
"""
    assert_first_alarm(HEAD + script + TRAIN, "sampled_without_gradient", tmp_path)


SPLIT = """
model = nn.Linear(4, 11)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    place = {place}
    probability = torch.full((8, 5), 0.2)
    with torch.no_grad():
        {split}
    loss = -(target * F.log_softmax(model(torch.randn(8, 4)), 1)).sum(1).mean()
"""
ON_POINTS, BETWEEN = "torch.arange(40).view(8, 5) / 4", "torch.rand(8, 5) * 9.9 + 0.01"
LOST = (
    "target, below, above = torch.zeros(8, 11), place.floor().long(), place.ceil().long()\n"
    "        target.scatter_add_(1, below, probability * (above.float() - place))  # HERE\n"
    "        target.scatter_add_(1, above, probability * (place - below.float()))",
    "target, shift = torch.zeros(88), torch.arange(8)[:, None] * 11\n"
    "        low, high = torch.floor(place), torch.ceil(place)\n"
    "        target.index_add_(0, (shift + low.long()).flatten(), ((high - place) * probability).view(-1))  # HERE\n"
    "        target.index_add_(0, (shift + high.long()).flatten(), ((place - low) * probability).view(-1))\n"
    "        target = target.view(8, 11)",
    "low, high = place.floor(), place.ceil()\n"
    "        where = torch.stack((low, high), dim=-1).long().flatten(1)\n"
    "        mass = probability.unsqueeze(-1) * torch.stack((high - place, place - low), dim=-1)  # HERE\n"
    "        target = torch.zeros(8, 11).scatter_add(1, where, mass.flatten(1))",
    "low, high = place.floor(), place.ceil()\n"
    "        share = high - place  # HERE\n"
    "        target = F.one_hot(low.long(), 11) * share.unsqueeze(-1)\n"
    "        target = (target + F.one_hot(high.long(), 11) * place.frac().unsqueeze(-1)).mean(1)",
)
KEPT = (
    LOST[0].replace("above.float() - place", "above.float() - place + (above == below)"),
    LOST[0].replace("place.ceil().long()", "place.floor().long() + 1"),
    LOST[0].replace(
        "\n",
        "\n        below[(above > 0) & (below == above)] -= 1\n        above[(below < 9) & (below == above)] += 1\n",
        1,
    ),
    LOST[2].replace("place.ceil()", "place.floor() + 1"),
    LOST[2].replace("mass.flatten(1))", "(mass + (low == high).float().unsqueeze(-1) / 2).flatten(1))"),
    LOST[0] + "\n        target.scatter_add_(1, below, probability * (below == above))",
    LOST[3].replace("high - place", "1 - place.frac()"),
    "target = F.softmax(((place.ceil() - place) * (place - place.floor())) @ torch.rand(5, 11), 1)",
)


@pytest.mark.parametrize("split", LOST)
def test_a_share_of_both_neighbours_that_is_lost_on_the_points_is_told(split: str, tmp_path: Path) -> None:
    script = HEAD + SPLIT.format(place=ON_POINTS, split=split) + TRAIN
    assert_first_alarm(script, "share_lost_on_grid", tmp_path)


@pytest.mark.parametrize(("place", "split"), [*((ON_POINTS, split) for split in KEPT), (BETWEEN, LOST[0])])
def test_a_share_that_is_kept_or_never_on_a_point_is_no_finding(place: str, split: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + SPLIT.format(place=place, split=split) + TRAIN, tmp_path)


LOGGED = """
policy, value = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=0.1)
states, actions, returns = torch.randn(64, 4), torch.randn(64, 2), torch.randn(64)
for step in range(4):
    v = value(states).squeeze(1)
    log_p = torch.distributions.Normal(policy(states), 1.0).log_prob(actions).sum(1)
    {weight}
    loss = F.mse_loss(v, returns) - (w * log_p).mean(){mark}"""
OF_VALUE = ("w = torch.exp(returns - v)", "w = ((returns - v) / 2).exp().clamp(max=20)")
CONSTANT = ("w = torch.exp(returns - v.detach())", "w = torch.exp(returns - v).detach()", "w = torch.exp(returns)")


@pytest.mark.parametrize("weight", OF_VALUE)
def test_a_weight_of_logged_actions_that_moves_the_value_is_told(weight: str, tmp_path: Path) -> None:
    script = HEAD + LOGGED.format(weight=weight, mark="  # HERE") + TRAIN
    assert_first_alarm(script, "gradient_into_target", tmp_path)


def test_a_weight_of_the_advantage_whose_square_fits_the_value_is_told(tmp_path: Path) -> None:
    advantage = "advantage = returns - v\n    w = torch.exp(2 * advantage).clamp(max=50.0)"
    script = HEAD + LOGGED.format(weight=advantage, mark="  # HERE") + TRAIN
    script = script.replace(
        "F.mse_loss(v, returns)", "(torch.where(advantage > 0, 0.7, 0.3) * advantage.pow(2)).mean()"
    )
    assert_first_alarm(script, "gradient_into_target", tmp_path)
    assert "gradient_into_target" not in {
        each.cause for each in alarms(script.replace("exp(2 * advantage)", "exp(2 * advantage.detach())"), tmp_path)
    }


@pytest.mark.parametrize("weight", CONSTANT)
def test_constant_weights_of_logged_actions_are_right(weight: str, tmp_path: Path) -> None:
    script = HEAD + LOGGED.format(weight=weight, mark="") + TRAIN
    assert "gradient_into_target" not in {each.cause for each in alarms(script, tmp_path)}


RETURNS = """
critic = nn.Linear(4, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(3):
    states, reward = torch.randn(6, 8, 4), torch.randn(5, 8)
    values = critic(states).squeeze(-1)
{returns}
    loss = F.smooth_l1_loss(values[:-1], goal)"""
WITH_GRADIENT = (
    """
    later, goal = values[1:], []  # HERE
    total = later[-1]
    for r, v in zip(reward.flip(0), later.flip(0)):
        total = r + 0.95 * torch.lerp(v, total, 0.8)
        goal.append(total)
    goal = torch.stack(goal[::-1])
""",
    """
    def bootstrapped(rewards, values):
        total, goal = values[-1], []
        for r, v in zip(rewards.flip(0), values[1:].flip(0)):
            total = r + 0.95 * torch.lerp(v, total, 0.8)
            goal.append(total)
        return torch.stack(goal[::-1])
    goal = bootstrapped(reward, values)  # HERE
""",
    "    goal = torch.add(reward, values.narrow(0, 1, 5), alpha=0.9)  # HERE",
    """
    goal = torch.zeros(5, 8)
    total = values[5]  # HERE
    for t in reversed(range(5)):
        total = torch.addcmul(reward[t], torch.full((8,), 0.9), total)
        goal[t] = total
""",
)
WITHOUT_GRADIENT = (
    "    goal = torch.add(reward, values.narrow(0, 1, 5).detach(), alpha=0.9)",
    """
    total, goal = values[-1].detach(), []
    for r in reward.flip(0):
        total = torch.add(r, total, alpha=0.9)
        goal.append(total)
    goal = torch.stack(goal[::-1])
""",
    """
    goal = torch.zeros(5, 8)
    with torch.no_grad():
        total = values[5]
        for t in reversed(range(5)):
            total = torch.addcmul(reward[t], torch.full((8,), 0.9), total)
            goal[t] = total
""",
)


@pytest.mark.parametrize("returns", WITH_GRADIENT)
def test_returns_of_several_steps_with_a_gradient_are_told(returns: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + RETURNS.format(returns=returns) + TRAIN, "gradient_into_target", tmp_path)


@pytest.mark.parametrize("returns", WITHOUT_GRADIENT)
def test_returns_of_several_steps_without_a_gradient_are_right(returns: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + RETURNS.format(returns=returns) + TRAIN, tmp_path)


def test_a_policy_that_is_trained_through_a_simulation_has_no_target(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
def move(state, force):
    x, v, angle, turn = state.unbind(-1)
    sin, cos = angle.sin(), angle.cos()
    push = (force + 0.1 * 0.5 * turn**2 * sin) / 1.1
    bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    v, turn = v + 0.04 * (push - 0.1 * 0.5 * bend * cos / 1.1), turn + 0.04 * bend
    return torch.stack([x + 0.04 * v, v, angle + 0.04 * turn, turn], -1)
for step in range(4):
    state, cost = torch.cat([torch.rand(16, 1) - 0.5, torch.zeros(16, 1)] * 2, 1), 0.0
    for _ in range(10):
        force = 10 * torch.tanh(policy(state)).squeeze(-1)
        state = move(state, force)
        x, v, angle, turn = state.unbind(-1)
        cost = cost + (1 - angle.cos()) * 4 + 0.1 * x**2 + 0.01 * v**2 + 0.001 * force**2
    loss = cost.mean()
"""
        + TRAIN
    )
    assert not alarms(script, tmp_path)


def test_a_friction_in_a_simulation_of_two_segments_is_no_target(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
policy, friction = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)), torch.tensor(0.95)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(4):
    state, costs = torch.randn(16, 2), []
    for t in range(8):
        if t == 4:
            state = state.detach()
        force, (x, v) = policy(state).squeeze(-1), state.unbind(-1)
        push = force - friction * v
        v = v + 0.05 * push * x.cos()
        state = torch.stack([x + 0.05 * v, v], -1)
        costs.append((state.square() * torch.tensor([1.0, 0.1])).sum(-1) + 1e-3 * force.square())
    loss = torch.stack(costs).mean()
"""
        + TRAIN
    )
    assert not alarms(script, tmp_path)


FILTER = """
class Walk(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.pull = nn.Parameter(torch.zeros(())), nn.Parameter(torch.tensor(0.5))
    def forward(self, state):
        return self.mean + self.pull.tanh() * (state - self.mean) + 0.5 * torch.randn_like(state)
model = Walk()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    state, likelihood = model(torch.randn(50)), 0.0
    for y in torch.randn(5):
        state = model(state)
        weights = -0.5 * (y - state) ** 2
        likelihood = likelihood + weights.logsumexp(0)
        state = state[torch.multinomial(weights.detach().softmax(0), 50, replacement=True)]
    loss = -likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_particles_that_are_drawn_anew_are_no_actions(tmp_path: Path) -> None:
    assert not alarms(HEAD + FILTER, tmp_path)
