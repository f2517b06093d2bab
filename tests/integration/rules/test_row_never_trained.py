"""Rows of embeddings that stand for nothing in particular: whether training ever looks them up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

GUIDED = """
class Denoiser(nn.Module):
    def __init__(self, padding=None):
        super().__init__()
        self.label = nn.Embedding(4, 8, padding_idx=padding)
        self.body = nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Linear(16, 2))
    def forward(self, x, y):
        return self.body(torch.cat([x, self.label(y)], dim=1))
net = Denoiser({padding})
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def sample(net, y):
    x = torch.randn(len(y), 2)
    with torch.no_grad():
        for i in range(5):
            {guided}
    return x
for step in range(40):
    y = torch.randint(0, 3, (16,))
    x, noise = torch.randn(16, 2), torch.randn(16, 2)
    {labels}
    loss = F.mse_loss(net(x + noise, y), noise)  # HERE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(sample({net}, torch.arange(3)).mean())
"""
TWICE = "free = net(x, torch.full_like(y, 3)); x = x - 0.1 * (free + 2 * (net(x, y) - free))"
JOINED = "given, free = net(x.repeat(2, 1), torch.cat([y, torch.full_like(y, 3)])).chunk(2); x = x - 2 * given + free"
DROPPED = "y = torch.where(torch.rand(16) < 0.1, 3, y)"
WORDS = """
embed, layer, head = nn.Embedding(6, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 6)
optimizer = torch.optim.Adam([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    text = torch.randint(1, 6, (8, 7))
    shown = {shown}
    out, _ = layer(embed(shown))  # HERE
    loss = F.cross_entropy(head(out).flatten(0, 1), {asked}.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    token, state = torch.zeros(4, 1, dtype=torch.long), None
    for _ in range({length}):
        out, state = layer(embed(token), state)
        token = head(out).argmax(-1)
"""
BEGUN = "torch.cat([torch.zeros(8, 1, dtype=torch.long), text[:, :-1]], dim=1)"
POSITIONS = """
place, head = nn.Embedding(8, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*place.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    loss = (head(place(torch.arange(7))) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(sum(head(place(torch.tensor([t]))) for t in range(8)), head(place(torch.arange(8))).sum())
"""
FAULTY = (
    GUIDED.format(padding=None, guided=TWICE, labels="pass", net="net"),
    GUIDED.format(padding=None, guided=TWICE, labels="pass", net="copy.deepcopy(net)"),
    GUIDED.format(padding=None, guided=JOINED, labels="pass", net="net"),
    WORDS.format(shown="text[:, :-1]", asked="text[:, 1:]", length=1),
)
HEALTHY = (
    GUIDED.format(padding=None, guided=TWICE, labels=DROPPED, net="net"),
    GUIDED.format(padding=None, guided=JOINED, labels=DROPPED, net="copy.deepcopy(net)"),
    GUIDED.format(padding=3, guided=TWICE, labels="pass", net="net"),
    WORDS.format(shown=BEGUN, asked="text", length=3),
    POSITIONS,
)


@pytest.mark.parametrize("script", FAULTY)
def test_a_row_that_only_samples_use_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, "row_never_trained", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_rows_that_are_trained_or_padding_are_right(script: str, tmp_path: Path) -> None:
    assert "row_never_trained" not in {each.cause for each in alarms(HEAD + script, tmp_path)}
