"""What a convolution slides over, which value a target belongs to, and distances that are taken for scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TEXT = (
    HEAD
    + """
embed, head = nn.Embedding(30, 12), nn.Linear(8, 2)
"""
)
CONVOLUTIONS = {
    "a layer of as many channels as positions": """
conv = nn.Conv1d(10, 8, 3)
def features(tokens):
    return F.relu(conv(embed(tokens))).max(2).values  # HERE
""",
    "positions and dropout before it": """
conv = nn.Conv1d(10, 8, kernel_size=5, padding=2)
places = torch.randn(10, 12)
def features(tokens):
    h = F.dropout(embed(tokens) + places, 0.1)
    h = conv(h)  # HERE
    return F.adaptive_max_pool1d(h.relu(), 1).squeeze(2)
""",
}
HEALTHY_CONVOLUTIONS = {
    "axes turned around": """
conv = nn.Conv1d(12, 8, 3)
def features(tokens):
    return F.relu(conv(embed(tokens).transpose(1, 2))).max(2).values
""",
    "a mixer of positions": """
conv = nn.Conv1d(10, 8, 1)
def features(tokens):
    return F.relu(conv(embed(tokens))).max(2).values
""",
    "a kernel over all features": """
conv = nn.Conv1d(10, 8, 12)
def features(tokens):
    return F.relu(conv(embed(tokens))).max(2).values
""",
    "a picture of the sequence": """
conv = nn.Conv2d(1, 8, (3, 12))
def features(tokens):
    return F.relu(conv(embed(tokens).unsqueeze(1))).squeeze(3).max(2).values
""",
}
TEXT_LOOP = (
    """
optimizer = torch.optim.SGD([*embed.parameters(), *conv.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    tokens = torch.randint(0, 30, (16, 10))
    loss = F.cross_entropy(head(features(tokens)), tokens[:, 0] % 2)
"""
    + TRAIN
)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_over_features_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(TEXT + CONVOLUTIONS[name] + TEXT_LOOP, "slides_over_features", tmp_path)


@pytest.mark.parametrize("name", HEALTHY_CONVOLUTIONS)
def test_convolutions_over_positions_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(TEXT + HEALTHY_CONVOLUTIONS[name] + TEXT_LOOP, tmp_path)


GAME = (
    HEAD
    + """
import random
random.seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
target_net = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters())
memory = []
for _ in range(64):
    memory.append((torch.randn(4), random.randrange(3), random.random(), torch.randn(4), random.random() < 0.1))
for step in range(6):
    s, a, r, s2, done = zip(*random.sample(memory, 16))
    s, s2, a, r, done = torch.stack(s), torch.stack(s2), torch.tensor(a), torch.tensor(r), torch.tensor(done)
    target_net.load_state_dict(policy.state_dict())
"""
)
BEST = {
    "the largest of both states": """
    q = policy(s).max(1)[0]  # HERE
    y = r + 0.9 * target_net(s2).max(1)[0] * (~done)
    loss = F.mse_loss(q, y)
""",
    "amax, and an error by hand": """
    with torch.no_grad():
        following = target_net(s2).amax(dim=-1)
        y = r + 0.9 * following.masked_fill(done, 0.0)
    loss = (torch.amax(policy(s), -1) - y).square().mean()  # HERE
""",
    "the target of the double network": """
    with torch.no_grad():
        chosen = policy(s2).argmax(1, keepdim=True)
        y = r + 0.9 * target_net(s2).gather(1, chosen).squeeze(1) * (1 - done.float())
    values, _ = torch.max(policy(s), dim=1)  # HERE
    loss = F.smooth_l1_loss(values, y)
""",
}
TAKEN = {
    "gathered": """
    q = policy(s).gather(1, a[:, None]).squeeze(1)
    y = r + 0.9 * target_net(s2).max(1)[0] * (~done)
    loss = F.mse_loss(q, y)
""",
    "a value of states, from all actions": """
    with torch.no_grad():
        y = (torch.randn(16, 3) + 0.9 * (~done[:, None]) * target_net(s2)).max(1)[0]
    loss = F.mse_loss(policy(s).max(1)[0], y)
""",
    "times one-hot actions": """
    q = (policy(s) * F.one_hot(a, 3)).sum(1)
    y = r + 0.9 * target_net(s2).max(1)[0] * (~done)
    loss = F.mse_loss(q, y)
""",
}


@pytest.mark.parametrize("name", BEST)
def test_the_value_of_the_best_action_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(GAME + BEST[name] + TRAIN, "best_instead_of_taken", tmp_path)


@pytest.mark.parametrize("name", TAKEN)
def test_values_of_actions_that_were_taken_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(GAME + TAKEN[name] + TRAIN, tmp_path)


EPISODES = (
    HEAD
    + """
encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6))
optimizer = torch.optim.Adam(encoder.parameters())
labels = torch.arange(4).repeat_interleave(5)
for step in range(4):
    centres = torch.randn(4, 1, 8)
    prototypes = encoder(centres + 0.3 * torch.randn(4, 3, 8)).mean(1)
    queries = encoder((centres + 0.3 * torch.randn(4, 5, 8)).reshape(20, 8))
"""
)
FAR = {
    "cdist": """
    logits = torch.cdist(queries, prototypes)  # HERE
    loss = F.cross_entropy(logits, labels)
""",
    "squares of differences": """
    distances = ((queries[:, None] - prototypes[None]) ** 2).sum(-1)  # HERE
    loss = F.nll_loss(F.log_softmax(distances / 2.0, dim=1), labels)
""",
    "norms of differences": """
    distances = torch.norm(queries.unsqueeze(1) - prototypes, dim=2)  # HERE
    loss = F.cross_entropy(0.5 * distances, labels)
""",
}
NEAR = {
    "negated": """
    loss = F.cross_entropy(-torch.cdist(queries, prototypes), labels)
""",
    "a negative scale": """
    loss = F.nll_loss(F.log_softmax(((queries[:, None] - prototypes[None]) ** 2).sum(-1) * -0.5, dim=1), labels)
""",
    "products": """
    loss = F.cross_entropy(queries @ prototypes.T, labels)
""",
    "the odd one out": """
    places = torch.randint(0, 5, (4,))
    groups = encoder(torch.randn(4, 1, 8) + 2 * F.one_hot(places, 5)[..., None])
    loss = F.cross_entropy((groups - groups.mean(1, keepdim=True)).norm(dim=-1), places)
""",
    "a kernel": """
    loss = F.cross_entropy(torch.exp(-torch.cdist(queries, prototypes)) * 5, labels)
""",
}


@pytest.mark.parametrize("name", FAR)
def test_distances_that_are_scores_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(EPISODES + FAR[name] + TRAIN, "distances_as_scores", tmp_path)


@pytest.mark.parametrize("name", NEAR)
def test_scores_of_what_is_near_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(EPISODES + NEAR[name] + TRAIN, tmp_path)


PLAYED = (
    HEAD
    + """
import random
random.seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
target_net = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters())
memory, state = [], torch.randn(4)
for step in range(60):
    with torch.no_grad():
        action = int(policy(state).argmax()) if random.random() < 0.8 else random.randrange(3)
    after, over = torch.randn(4), float(random.random() < 0.3)
    memory.append((state, action, random.random(), after, over))
    state = after
    if len(memory) < 40:
        continue
    s, a, r, s2, d = zip(*random.sample(memory, 16))
    s, s2 = torch.stack(s), torch.stack(s2)
    a, r, d = torch.tensor(a), torch.tensor(r), torch.tensor(d)
    q = policy(s).gather(1, a[:, None]).squeeze(1)
    with torch.no_grad():
        following = target_net(s2).max(1).values
"""
)
PLAYED_LOSS = (
    """
    loss = F.smooth_l1_loss(q, y)
    if step % 5 == 0:
        target_net.load_state_dict(policy.state_dict())
"""
    + TRAIN
)


def test_ends_are_missed_in_a_program_that_acts_without_gradients(tmp_path: Path) -> None:
    faulty = PLAYED + "        y = r + 0.9 * following  # HERE\n" + PLAYED_LOSS
    assert_first_alarm(faulty, "loaded_and_not_used", tmp_path)


def test_ends_that_are_read_in_such_a_program_are_left_alone(tmp_path: Path) -> None:
    assert not alarms(PLAYED + "        y = r + 0.9 * (1 - d) * following\n" + PLAYED_LOSS, tmp_path)
