"""Recurrent policies that act, and whose stored steps are computed again: where the ends of episodes mask the state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

AGENT = (
    HEAD
    + """
T, N = 8, 6
cell, head, critic = nn.GRUCell(3, 12), nn.Linear(12, 2), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters(), *critic.parameters()], lr=0.01)

def environment(state, action):
    done = torch.rand(N) < 0.3
    state = torch.where(done[:, None], torch.randn(N, 3), 0.9 * state + 0.1 * torch.randn(N, 3))
    return state, (action == 1).float() * state[:, 0], done.float()

def replay(states, actions, dones, hidden):
    found, values = [], []
    for t in range(T):
        REPLAY
        found.append(torch.distributions.Categorical(logits=head(hidden)).log_prob(actions[t]))
        values.append(critic(hidden).squeeze(-1))
        BEHIND
    return torch.stack(found), torch.stack(values)

state, hidden, before = torch.randn(N, 3), torch.zeros(N, 12), torch.zeros(N)
for update in range(3):
    start, BUFFERS
    for t in range(T):
        with torch.no_grad():
            ACT
            STORE
            state = following
            LATER
    states, actions, old, rewards, dones = STACKED
    returns, last = [], torch.zeros(N)
    for t in reversed(range(T)):
        last = rewards[t] + 0.9 * (1 - ENDS[t]) * last
        returns.insert(0, last)
    returns = torch.stack(returns)
    for epoch in range(3):
        new, values = replay(states, actions, dones, start)
        ratio = (new - old).exp()
        advantages = (returns - values).detach()
        gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        loss = F.mse_loss(values, returns) - gain
"""
    + TRAIN.replace("\n    ", "\n        ")
)
CELL = "hidden = cell(states[t], hidden)"
PARTS = {
    "REPLAY": f"hidden = hidden * (1 - dones[t])[:, None]  # HERE\n{CELL}",
    "BEHIND": "pass",
    "BUFFERS": "rows = hidden, []",
    "ACT": """hidden = cell(state, hidden)
policy = torch.distributions.Categorical(logits=head(hidden))
action = policy.sample()
following, reward, done = environment(state, action)""",
    "STORE": "rows.append((state, action, policy.log_prob(action), reward, done))",
    "LATER": "hidden = hidden * (1 - done)[:, None]",
    "STACKED": "(torch.stack(column) for column in zip(*rows))",
    "ENDS": "dones",
}
INDENT = {"REPLAY": 8, "BEHIND": 8, "ACT": 12, "STORE": 12, "LATER": 12}


def script(**changed: str) -> str:
    text = AGENT
    for name, part in (PARTS | changed).items():
        text = text.replace(name, part.replace("\n", "\n" + " " * INDENT.get(name, 0)))
    return text


FILLED = {
    "BUFFERS": "buffers = hidden, [torch.zeros(T, N, 3), torch.zeros(T, N).long()]\n"
    "    buffers += [torch.zeros(T, N) for _ in range(3)]",
    "STORE": "for buffer, part in zip(buffers, (state, action, policy.log_prob(action), reward, done)):\n"
    "    buffer[t] = part",
    "STACKED": "buffers",
}
LATE = {
    "a product": script(),
    "filled with zeros": script(REPLAY=f"hidden = hidden.masked_fill(dones[t][:, None].bool(), 0.0)  # HERE\n{CELL}"),
    "log-probabilities before the step": script(ACT=PARTS["ACT"] + "\nkept = policy.log_prob(action)").replace(
        "policy.log_prob(action), reward", "kept, reward"
    ),
    "filled buffers": script(**FILLED),
    "unbound": script().replace(
        "for t in range(T):\n        hidden = hidden * (1 - dones[t])",
        "for t, ended in enumerate(dones.unbind()):\n        hidden = hidden * (1 - ended)",
    ),
}
HEALTHY = {
    "behind the step": script(REPLAY=CELL, BEHIND="hidden = hidden * (1 - dones[t])[:, None]"),
    "the end of the step before": script(
        REPLAY=f"hidden = hidden * (1 - dones[t - 1])[:, None] if t else hidden\n{CELL}"
    ),
    "stored before the step": script(
        ACT="hidden = hidden * (1 - before)[:, None]\n" + PARTS["ACT"],
        STORE="rows.append((state, action, policy.log_prob(action), reward, before))\nbefore = done",
        LATER="pass",
        ENDS="dones.roll(-1, 0)",
    ),
    "converted when stored": script(
        ACT="hidden = hidden * (1 - before)[:, None]\n" + PARTS["ACT"],
        STORE="rows.append((state, action, policy.log_prob(action), reward, before.bool().float()))\nbefore = done",
        LATER="pass",
        ENDS="dones.roll(-1, 0)",
    ),
    "no state is masked": script(REPLAY=CELL, LATER="pass"),
    "dropout": script(
        REPLAY="hidden = F.dropout(cell(states[t], hidden), 0.1)", BEHIND="hidden = hidden * (1 - dones[t])[:, None]"
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_a_replay_that_masks_by_an_end_before_its_step_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(LATE[name], "ends_one_step_late", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_replays_that_mask_as_the_rollout_did_are_right(name: str, tmp_path: Path) -> None:
    assert "ends_one_step_late" not in {each.cause for each in alarms(HEALTHY[name], tmp_path)}
