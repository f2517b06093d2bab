"""Advantages in which the value of the next state is masked by an end of an episode: of this step, or of the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

AGENT = (
    HEAD
    + """
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
T, N = 12, 4
class Env:
    def __init__(self):
        self.state = torch.randn(N, 4)
    def step(self, action):
        done = torch.rand(N) < 0.2
        self.state = torch.where(done[:, None], torch.randn(N, 4), 0.9 * self.state + 0.1 * torch.randn(N, 4))
        return self.state, (action == 1) * self.state[:, 0], done.float(), {}
env = Env()
def advantages_of(rewards, values, dones, last, ended):
    advantages, gae = torch.zeros(T, N), torch.zeros(N)
    for t in reversed(range(T)):
        if t == T - 1:
            alive, later = 1.0 - ended, last
        else:
            MASK
        delta = rewards[t] + 0.99 * later * alive - values[t]
        gae = delta + 0.99 * 0.95 * alive * gae
        advantages[t] = gae
    return advantages
state, next_done = env.state, torch.zeros(N)
for update in range(3):
    states, actions, values, rewards, dones = [], [], [], [], BEGIN
    for step in range(T):
        with torch.no_grad():
            policy = torch.distributions.Categorical(logits=actor(state))
            action, value = policy.sample(), critic(state).squeeze(-1)
        STORE
    with torch.no_grad():
        last = critic(state).squeeze(-1)
    advantages = advantages_of(rewards, values, dones, last, ENDED)
    policy = torch.distributions.Categorical(logits=actor(torch.stack(states)))
    now = critic(torch.stack(states)).squeeze(-1)
    score = (policy.log_prob(torch.stack(actions)) * advantages).mean()
    loss = (now - (advantages + torch.stack(values))).square().mean() - score
"""
    + TRAIN
)
NEXT = "alive, later = 1.0 - dones[t + 1], values[t + 1]"
OWN = """states.append(state); actions.append(action); values.append(value)
        state, reward, done, info = env.step(action)
        rewards.append(reward); dones.append(done)"""
BEFORE = """states.append(state); actions.append(action); values.append(value); dones.append(next_done)
        state, reward, next_done, info = env.step(action)
        rewards.append(reward)"""


def of_agent(mask: str, store: str, begin: str = "[]", ended: str = "done") -> str:
    script = AGENT.replace("MASK", mask.replace("\n", "\n            ")).replace("STORE", store)
    return script.replace("BEGIN", begin).replace("ENDED", ended)


LATE = [
    of_agent(f"{NEXT}  # HERE", OWN),
    of_agent(f"{NEXT}  # HERE", OWN.replace("dones.append(done)", "dones[step] = done"), "torch.zeros(T, N)"),
    of_agent(
        "alive = 1 - dones[t + 1]  # HERE\nlater = values[t + 1]",
        OWN.replace("values.append(value)", "pass") + "\n        values.append(value)",
    ),
    of_agent(f"{NEXT}  # HERE", OWN).replace(
        "(rewards, values, dones, last, done)", "(rewards, torch.stack(values), torch.stack(dones), last, done)"
    ),
]
IN_TIME = [
    of_agent("alive, later = 1.0 - dones[t], values[t + 1]", OWN),
    # the end that the step before reported, stored before the step
    of_agent(NEXT, BEFORE, ended="next_done"),
    of_agent(
        NEXT,
        BEFORE.replace("dones.append", "done = next_done; dones.append").replace("(next_done)", "(done)"),
        ended="next_done",
    ),
    of_agent(
        NEXT, BEFORE.replace("dones.append(next_done)", "dones[step] = next_done"), "torch.zeros(T, N)", "next_done"
    ),
    # one entry in front
    of_agent(NEXT, OWN, "[torch.zeros(N)]"),
    of_agent(NEXT, OWN.replace("dones.append(done)", "dones[step + 1] = done"), "torch.zeros(T + 1, N)"),
    # an end that is told of the state itself, as the value is
    of_agent(
        NEXT,
        """ended = torch.sigmoid(ends(state)).squeeze(-1).detach()
        states.append(state); actions.append(action); values.append(value); dones.append(ended)
        state, reward, done, info = env.step(action)
        rewards.append(reward)""",
    ).replace("T, N = 12, 4", "T, N, ends = 12, 4, nn.Linear(4, 1)"),
    # nothing but another spelling
    of_agent(
        "alive, later = 1.0 - dones[t], values[t + 1]", OWN.replace("dones.append(done)", "dones.append(done.clone())")
    ),
]


@pytest.mark.parametrize("script", LATE)
def test_ends_of_the_step_after_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "ends_one_step_late", tmp_path)


@pytest.mark.parametrize("script", IN_TIME)
def test_ends_of_the_step_itself_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)
