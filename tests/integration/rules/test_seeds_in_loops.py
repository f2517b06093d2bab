"""Seeds that a training sets again and again, and those that it sets once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import random
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.randn(32, 4)
def fix_everything(number):
    random.seed(number)
    torch.manual_seed(number)
def loss_of(x):
    noise = torch.randn_like(x)
    level = torch.rand(len(x), 1)
    return F.mse_loss(model(level.sqrt() * x + (1 - level).sqrt() * noise), noise)
"""
)
FAULTY = {
    "four batches in order, over and over": """
for step in range(12):
    torch.manual_seed(0)  # HERE
    loss = loss_of(data[step % 4 * 8 : step % 4 * 8 + 8])
"""
    + TRAIN,
    "a helper that is also called before": """
def train():
    fix_everything(1)
    for epoch in range(3):
        for x in data.split(8):
            fix_everything(1)  # HERE
            loss = loss_of(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
train()
""",
}
KEYS = """
def split(key):
    return torch.randint(1000, (2,), generator=torch.Generator().manual_seed(key)).tolist()
def normal(key, like):
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(key))
def noisy_loss(x, key):
    noise = normal(key, x)
    return F.mse_loss(model(x + noise), noise)
def train_step(x, key):
    key, sub = split(key)
    loss = noisy_loss(x, sub)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return key
key = 5
for step in range(12):
    train_step(data[step % 4 * 8 : step % 4 * 8 + 8], key)  # HERE
"""
FAULTY["a seed that is given on, and split"] = KEYS
HEALTHY = {
    "the seed that a step returns": KEYS.replace("    train_step(", "    key = train_step("),
    "one seed for all": """
fix_everything(1)
for step in range(12):
    loss = loss_of(data[step % 4 * 8 : step % 4 * 8 + 8])
"""
    + TRAIN,
    "a seed of its own for each step": """
for step in range(12):
    fix_everything(step)
    loss = loss_of(data[step % 4 * 8 : step % 4 * 8 + 8])
"""
    + TRAIN,
    "one batch that is to be learned by heart": """
for step in range(12):
    fix_everything(1)
    loss = loss_of(data[:8])
"""
    + TRAIN,
    "two models from one seed": """
for width in (8, 16):
    fix_everything(1)
    model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x in data.split(8):
        loss = loss_of(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
}

ROUNDS = """
import copy
targets = data.flip(1)
def train_locally(shared, number, generator):
    model = copy.deepcopy(shared)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        rows = torch.randint(0, len(data), (12,), generator=generator)
        loss = F.mse_loss(model(data[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()
def mean_of(states):
    return {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
"""
OWN = """
def diffusion_loss(x, seed=1):
    generator = torch.Generator().manual_seed(seed)  # HERE
    level = torch.rand(len(x), 1, generator=generator)
    noise = torch.randn(x.shape, generator=generator)
    return F.mse_loss(model(level.sqrt() * x + (1 - level).sqrt() * noise), noise)
for step in range(12):
    loss = diffusion_loss(data{seed})
"""
IN_ROUNDS = {
    "each round of a client draws the same samples": """
for number in range(4):
    states = []
    for client in range(2):
        generator = torch.Generator().manual_seed(client)  # HERE
        states.append(train_locally(model, client, generator))
    model.load_state_dict(mean_of(states))
""",
}
HEALTHY_IN_ROUNDS = {
    "a generator for each client": """
generators = [torch.Generator().manual_seed(client) for client in range(2)]
for number in range(4):
    model.load_state_dict(mean_of([train_locally(model, client, generators[client]) for client in range(2)]))
""",
    "the round is part of the seed": """
for number in range(4):
    states = []
    for client in range(2):
        states.append(train_locally(model, client, torch.Generator().manual_seed(10 * number + client)))
    model.load_state_dict(mean_of(states))
""",
    "copies of one model that never learns from them, from the same samples": """
scores = []
for number in range(4):
    state = train_locally(model, number, torch.Generator().manual_seed(0))
    scores.append(state["0.weight"].norm().item())
""",
}


VIEWS = """
def contrast(a, b):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    return F.cross_entropy(a @ b.t() / 0.2, torch.arange(len(a)))
def augment(x, seed):
    generator = torch.Generator().manual_seed(seed)  # HERE
    x = x * (torch.rand(x.shape, generator=generator) > 0.1)
    return x + 0.3 * torch.randn(x.shape, generator=generator)
pictures, classes = torch.randn(96, 4), torch.randint(0, 4, (96,))
for step in range(12):
    rows = torch.randint(0, 96, (24,))
    x, y = pictures[rows], classes[rows]
"""
PROBE = """
head = nn.Linear(4, 4)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(60):
    loss = F.cross_entropy(head(pictures), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FAULTY_VIEWS = {
    "the same numbers for both views and for all steps": """
    loss = contrast(model(augment(x, 0)), model(augment(x, 0)))
""",
    "the same numbers for all steps, in a loop over views": """
    loss = contrast(*[model(augment(x, 0)) for _ in range(2)])
""",
    "the same numbers for both views": """
    loss = contrast(model(augment(x, step)), model(augment(x, step)))
""",
    "the same numbers for both views, which are joined": """
    loss = contrast(*model(torch.cat([augment(x, step), augment(x, step)])).chunk(2))
""",
    "the same numbers for both views, of which one is cut off": """
    one, other = model(augment(x, step)), model(augment(x, step)).detach()
    loss = F.cross_entropy(one, y) + F.mse_loss(one, other)
""",
    "one view of each batch": """
    loss = F.cross_entropy(model(augment(x, 0)), y)
""",
}
HEALTHY_VIEWS = {
    "a seed for each view": """
    loss = contrast(model(augment(x, 2 * step)), model(augment(x, 2 * step + 1)))
""",
    "one view, a seed for each step": """
    loss = F.cross_entropy(model(augment(x, step)), y)
""",
    "another change of the second one": """
    clean, moved = model(augment(x, step)), model(augment(x, step) + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(clean, y) + F.mse_loss(moved.softmax(1), clean.softmax(1))
""",
    "two results of one view through dropout": """
    one, other = (F.dropout(model(augment(x, step)), 0.3) for _ in range(2))
    loss = F.cross_entropy(one, y) + F.kl_div(one.log_softmax(1), other.softmax(1), reduction="batchmean")
""",
    "two tasks that are added": """
    loss = F.cross_entropy(model(augment(x, step)), y) + F.mse_loss(model(augment(x, step)), x)
""",
    "the view of a teacher": """
    if step == 0:
        teacher = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4)).requires_grad_(False)
        teacher.load_state_dict(model.state_dict())
    loss = F.cross_entropy(model(augment(x, step)), teacher(augment(x, step)).softmax(1))
""",
    "phases of random features, which stay": """
    generator = torch.Generator().manual_seed(7)
    shifts = torch.rand(4, generator=generator) * 6.28
    directions = torch.randn(4, 4, generator=generator)
    features = torch.cos(x @ directions + shifts)
    loss = F.cross_entropy(model(features), y)
""",
    "codes of positions, which stay": """
    codes = torch.randn(5, 4, generator=torch.Generator().manual_seed(7))
    loss = F.cross_entropy(model(x.view(24, 1, 4) + codes).mean(1), y)
""",
    "an evaluation from one seed": """
    with torch.no_grad():
        level = F.cross_entropy(model(augment(pictures, 0)), classes).item()
    loss = F.cross_entropy(model(augment(x, step)), y)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_seed_in_the_loop_is_told_where_it_stands(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + FAULTY[name], "same_random_numbers", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_seeds_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(START + HEALTHY[name], tmp_path)


@pytest.mark.parametrize("name", IN_ROUNDS)
def test_samples_that_come_back_in_each_round_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + ROUNDS + IN_ROUNDS[name], "same_random_numbers", tmp_path)


@pytest.mark.parametrize("name", HEALTHY_IN_ROUNDS)
def test_rounds_that_draw_other_samples_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(START + ROUNDS + HEALTHY_IN_ROUNDS[name], tmp_path)


def test_noise_of_an_own_generator_that_is_asked_for_is_told_with_one_batch_too(tmp_path: Path) -> None:
    assert_first_alarm(START + OWN.replace("{seed}", "") + TRAIN, "same_random_numbers", tmp_path)
    assert not alarms(START + OWN.replace("{seed}", ", step") + TRAIN, tmp_path)


POSTERIOR = """
centre, width = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(30, 4))
optimizer = torch.optim.Adam([centre, width], lr=0.05)
def samples():
    return centre + width.exp() * torch.randn(30, 4, generator=torch.Generator().manual_seed(4))  # HERE
for step in range(20):
    x = {data}
    loss = (x.unsqueeze(1) - samples()).square().sum(2).mean() - width.mean()
"""


@pytest.mark.parametrize("given", ["data", "(data * 1.0)"])
def test_samples_of_a_distribution_may_stay_where_the_data_do(given: str, tmp_path: Path) -> None:
    script = START + POSTERIOR.format(data=given) + TRAIN
    assert "same_random_numbers" not in {each.cause for each in alarms(script, tmp_path)}


@pytest.mark.parametrize("given", ["data[torch.randint(0, 32, (8,))]", "data[step % 4 * 8 : step % 4 * 8 + 8]"])
def test_samples_of_a_distribution_that_come_back_for_other_data_are_told(given: str, tmp_path: Path) -> None:
    script = START + POSTERIOR.format(data=given) + TRAIN
    assert "same_random_numbers" in {each.cause for each in alarms(script, tmp_path)}


@pytest.mark.parametrize("name", FAULTY_VIEWS)
def test_views_of_the_same_numbers_are_told_where_their_generator_is_made(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + VIEWS + FAULTY_VIEWS[name] + TRAIN, "same_random_numbers", tmp_path)


def test_steps_of_a_probe_do_not_count_for_the_draws_of_a_training(tmp_path: Path) -> None:
    name = "the same numbers for both views and for all steps"
    assert_first_alarm(START + VIEWS + FAULTY_VIEWS[name] + TRAIN + PROBE, "same_random_numbers", tmp_path)


@pytest.mark.parametrize("name", HEALTHY_VIEWS)
def test_views_and_numbers_that_are_alike_on_purpose_are_left_alone(name: str, tmp_path: Path) -> None:
    found = alarms(START + VIEWS + HEALTHY_VIEWS[name] + TRAIN, tmp_path)
    assert "same_random_numbers" not in {each.cause for each in found}
