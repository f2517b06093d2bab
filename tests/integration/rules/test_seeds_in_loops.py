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
HEALTHY = {
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
