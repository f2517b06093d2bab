"""Targets that are shifted once too often, masks with positions beside them, and probabilities of squashed actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

WINDOWS = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset
stream = torch.randint(0, 11, (400,))
class Windows(Dataset):
    def __init__(self, size):
        self.size = size
    def __len__(self):
        return len(stream) - self.size - 1
    def __getitem__(self, i):
        {windows}
        return x, y
embed, mix, head = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 11)
optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters(), *head.parameters()], lr=0.01)
for step, (x, y) in enumerate(DataLoader(Windows(9), batch_size=16, shuffle=True)):
    scores = head(mix(embed(x))[0])
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 5:
        break
"""
)
SHIFTED_LOSS = "loss = F.cross_entropy(scores[:, :-1].reshape(-1, 11), y[:, 1:].reshape(-1))"
PLAIN_LOSS = "loss = F.cross_entropy(scores.transpose(1, 2), y)"
NEXT_TOKENS = {
    "two slices": "x, y = stream[i : i + self.size], stream[i + 1 : i + self.size + 1]",
    "narrow": "x, y = stream.narrow(0, i, self.size), stream.narrow(0, i + 1, self.size)",
    "two parts of a chunk": "chunk = stream[i : i + self.size + 1]; x, y = chunk[:-1], chunk[1:]",
}
SAME_TOKENS = "x = y = stream[i : i + self.size]"
SHIFTED_BY_TWO = "x, y = stream[i : i + self.size], stream[i + 2 : i + self.size + 2]"


@pytest.mark.parametrize("name", NEXT_TOKENS)
def test_windows_of_next_tokens_that_the_loss_shifts_again_are_told(name: str, tmp_path: Path) -> None:
    script = WINDOWS.format(windows=NEXT_TOKENS[name] + "  # HERE", loss=SHIFTED_LOSS)
    assert_first_alarm(script, "targets_shifted_twice", tmp_path)


@pytest.mark.parametrize(
    ("windows", "loss"),
    [*((each, PLAIN_LOSS) for each in NEXT_TOKENS.values()), (SAME_TOKENS, SHIFTED_LOSS), (SHIFTED_BY_TWO, PLAIN_LOSS)],
)
def test_windows_that_are_shifted_once_are_left_alone(windows: str, loss: str, tmp_path: Path) -> None:
    assert alarms(WINDOWS.format(windows=windows, loss=loss), tmp_path) == []


ENCODER = (
    HEAD
    + """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 3)
    def forward(self, ids):
        x = torch.cat([self.first.expand(len(ids), -1, -1), self.embed(ids)], 1)
        {mask}
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        {attend}
        return self.head((x + y)[:, 0])
net = Encoder()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    lengths = torch.randint(2, 7, (8, 1))
    ids = torch.randint(1, 20, (8, 7)) * (torch.arange(7) < lengths)
    loss = F.cross_entropy(net(ids), ids[:, 0] % 3)
"""
    + TRAIN
)
ATTEND = "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, :])"
FILL = "y = (q @ k.transpose(1, 2)).masked_fill(mask[:, None, :], float('-inf')).softmax(-1) @ v"
INVERTED = {
    "padded with True": ("mask = F.pad(ids == 0, (1, 0), value=True)  # HERE", ATTEND),
    "joined with ones": (
        "mask = torch.cat([torch.ones(len(ids), 1, dtype=torch.bool), ids == 0], 1)  # HERE",
        ATTEND,
    ),
    "padded with False, where True hides": ("mask = F.pad(ids != 0, (1, 0), value=False)  # HERE", FILL),
}
RIGHT_WAY_ROUND = {
    "padded with True": ("mask = F.pad(ids != 0, (1, 0), value=True)", ATTEND),
    "padded with False, where True hides": ("mask = F.pad(ids == 0, (1, 0), value=False)", FILL),
}


@pytest.mark.parametrize("name", INVERTED)
def test_an_inverted_mask_with_positions_beside_it_is_told_where_it_is_compared(name: str, tmp_path: Path) -> None:
    mask, attend = INVERTED[name]
    assert_first_alarm(ENCODER.format(mask=mask, attend=attend), "inverted_mask", tmp_path)


@pytest.mark.parametrize("name", RIGHT_WAY_ROUND)
def test_masks_with_positions_beside_them_are_left_alone(name: str, tmp_path: Path) -> None:
    mask, attend = RIGHT_WAY_ROUND[name]
    assert alarms(ENCODER.format(mask=mask, attend=attend), tmp_path) == []


POLICY = (
    HEAD
    + """
from torch.distributions import Independent, Normal
policy, critic = nn.Linear(4, 4), nn.Linear(6, 1).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(4):
    states = torch.randn(8, 4)
    mean, log_std = policy(states).chunk(2, dim=1)
    std = log_std.exp()
    {score}
    loss = (0.2 * score - critic(torch.cat([states, action], dim=1))[:, 0]).mean()
"""
    + TRAIN
)
SCORES_OF_ACTIONS = {
    "a distribution": """
    normal = Normal(mean, std)
    action = normal.rsample().tanh()
    score = normal.log_prob(action).sum(-1)  # HERE
""",
    "several numbers, with the slope": """
    normal = Independent(Normal(mean, std), 1)
    action = torch.tanh(normal.rsample())
    score = normal.log_prob(action) - torch.log(1 - action.pow(2) + 1e-6).sum(-1)  # HERE
""",
    "by hand": """
    u = mean + std * torch.randn_like(mean)
    action = torch.tanh(u)
    score = (-0.5 * ((action - mean) / std) ** 2 - log_std).sum(-1)  # HERE
""",
}
SCORES_OF_ACTIONS["a loss"] = """
    action = torch.addcmul(mean, std, torch.randn_like(mean)).tanh()
    score = -F.gaussian_nll_loss(mean, action, std.square(), reduction="none").sum(-1)  # HERE
"""
SCORES_OF_SAMPLES = {
    "a distribution": """
    normal = Normal(mean, std)
    u = normal.rsample()
    action = u.tanh()
    score = (normal.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)).sum(-1)
""",
    "a mean that is squashed before": """
    normal = Normal(mean.tanh(), std)
    action = normal.rsample()
    score = normal.log_prob(action).sum(-1)
""",
    "an action that is drawn, and another one that is squashed": """
    normal = Normal(mean, std)
    action = torch.tanh(mean)
    score = normal.log_prob(action.detach() + 0.1 * torch.randn(8, 2)).sum(-1)
""",
}


@pytest.mark.parametrize("name", SCORES_OF_ACTIONS)
def test_the_log_probability_of_what_tanh_returned_is_told(name: str, tmp_path: Path) -> None:
    script = POLICY.format(score=SCORES_OF_ACTIONS[name].strip())
    assert_first_alarm(script, "squash_not_counted", tmp_path)


@pytest.mark.parametrize("name", SCORES_OF_SAMPLES)
def test_log_probabilities_of_samples_are_left_alone(name: str, tmp_path: Path) -> None:
    assert alarms(POLICY.format(score=SCORES_OF_SAMPLES[name].strip()), tmp_path) == []
