"""Samples of a group, and blocks around draws, that get the same random numbers again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

POLICY = (
    HEAD
    + """
policy = nn.Sequential(nn.Embedding(8, 16), nn.Tanh(), nn.Linear(16, 6))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
prompts = torch.arange(8).repeat(2)
@torch.no_grad()
def answer(prompts, generator):
    return torch.multinomial(policy(prompts).softmax(-1), 1, generator=generator).squeeze(1)
"""
)
UPDATE = (
    """
    rewards = (group == prompts[:, None] % 6).float() + 0.1 * group
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    log_probs = policy(prompts).log_softmax(-1).gather(1, group)
    loss = -(advantages * log_probs).mean()
"""
    + TRAIN
)
GROUPS = {
    "the step is in the seed": """
for step in range(6):
    members = []
    for member in range(5):
        generator = torch.Generator().manual_seed(7 + step)  # HERE
        members.append(answer(prompts, generator))
    group = torch.stack(members, 1)
""",
    "all random numbers are seeded": """
def sample(step):
    members = []
    for _ in range(5):
        torch.manual_seed(step)  # HERE
        members.append(answer(prompts, None))
    return torch.stack(members, dim=1)
for step in range(6):
    group = sample(step)
""",
}
GIVEN = """
@torch.no_grad()
def roll(prompts, seed):
    generator = torch.Generator().manual_seed(seed)
    first = answer(prompts, generator)
    return answer((prompts + first) % 8, generator)
"""
GIVEN_SEEDS = {
    "a comprehension": GIVEN
    + """
def group_of(seed):
    members = [roll(prompts, seed) for _ in range(5)]  # HERE
    return torch.stack(members, 1)
for step in range(6):
    group = group_of(100 + step)
""",
    "a loop around a function that passes the seed on": GIVEN
    + """
class Sampler:
    def __init__(self, seed):
        self.seed = seed
    def one(self, seed):
        own = 2 * seed + 1
        return roll(prompts, seed=own)
    def group(self):
        members = []
        for _ in range(5):
            members.append(self.one(self.seed))  # HERE
        self.seed += 1
        return torch.stack(members, 1)
sampler = Sampler(3)
for step in range(6):
    group = sampler.group()
""",
    "a number in the function": GIVEN.replace("manual_seed(seed)", "manual_seed(11)  # HERE")
    + """
for step in range(6):
    group = torch.stack([roll(prompts, member) for member in range(5)], 1)
""",
}
OWN_NUMBERS = {
    "the member is in the seed that is given": GIVEN
    + """
for step in range(6):
    group = torch.stack([roll(prompts, 100 * step + member) for member in range(5)], 1)
""",
    "each member has a seed of its own": GIVEN
    + """
for step in range(6):
    members = []
    for member in range(5):
        seed = 100 * step + member
        members.append(roll(prompts, seed))
    group = torch.stack(members, 1)
""",
    "the group is drawn in one call": GIVEN
    + """
for step in range(6):
    group = roll(prompts.repeat_interleave(5), 100 + step).view(-1, 5)
""",
    "the member is in the seed": """
for step in range(6):
    members = []
    for member in range(5):
        generator = torch.Generator().manual_seed(100 * step + member)
        members.append(answer(prompts, generator))
    group = torch.stack(members, 1)
""",
    "one generator for a step": """
for step in range(6):
    generator = torch.Generator().manual_seed(step)
    group = torch.stack([answer(prompts, generator) for member in range(5)], 1)
""",
}

CONTRAST = (
    HEAD
    + """
from contextlib import contextmanager
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
data = torch.randn(40, 6)
@contextmanager
def apart():
    with torch.random.fork_rng():  # HERE
        yield
def noisy(x):
    with {block}:
        noise = 0.1 * torch.randn(x.shape{generator})
    return x + noise
own = torch.Generator().manual_seed(0)
for epoch in range(6):
    for rows in torch.randperm(40).split(10):
        a, b = F.normalize(net(noisy(data[rows])), dim=1), F.normalize(net(0.9 * noisy(data[rows])), dim=1)
        loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(len(rows)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_of_equal_samples_is_told_where_it_is_seeded(name: str, tmp_path: Path) -> None:
    assert_first_alarm(POLICY + GROUPS[name] + UPDATE, "same_random_numbers", tmp_path)


@pytest.mark.parametrize("name", GIVEN_SEEDS)
def test_a_group_whose_turns_give_one_seed_is_told_there(name: str, tmp_path: Path) -> None:
    script = POLICY + GIVEN_SEEDS[name] + UPDATE
    assert_first_alarm(script, "same_random_numbers", tmp_path)


def test_rewards_that_are_repeated_along_a_group_are_equal_because_of_the_seed(tmp_path: Path) -> None:
    repeated = UPDATE.replace("prompts[:, None] % 6", "(prompts[:, None] % 6).expand(-1, 5)")
    assert [each.cause for each in alarms(POLICY + GIVEN_SEEDS["a comprehension"] + repeated, tmp_path)] == [
        "same_random_numbers"
    ]


@pytest.mark.parametrize("name", OWN_NUMBERS)
def test_a_group_whose_members_draw_their_own_numbers_is_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(POLICY + OWN_NUMBERS[name] + UPDATE, tmp_path)


def test_a_block_of_the_program_that_gives_the_old_state_back_is_the_line(tmp_path: Path) -> None:
    script = CONTRAST.format(block="apart()", generator="")
    assert_first_alarm(script, "same_random_numbers", tmp_path)


def test_a_generator_of_its_own_inside_the_block_is_left_alone(tmp_path: Path) -> None:
    assert not alarms(CONTRAST.format(block="apart()", generator=", generator=own"), tmp_path)
