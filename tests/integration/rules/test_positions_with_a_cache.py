"""Tokens that are generated one by one: the positions that they get beside a cache of keys and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        {made}
        self.register_buffer("table", torch.randn(1, 16, 8))
        self.layers = nn.ModuleList(nn.Linear(8, 24) for _ in range(2))
        self.head = nn.Linear(8, 9)
    def forward(self, ids, cache=None):
        kept = 0 if cache is None else cache[0][0].size(1)
        x = self.embed(ids)
        {place}
        grown = []
        for number, layer in enumerate(self.layers):
            q, k, v = layer(x).chunk(3, dim=-1)
            if cache is not None:
                k, v = torch.cat((cache[number][0], k), dim=1), torch.cat((cache[number][1], v), dim=1)
            grown.append((k, v))
            {attend}
        return self.head(x[:, -1]), grown
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    ids = torch.randint(0, 9, (8, 7))
    loss = F.cross_entropy(model(ids)[0], (ids[:, -1] + 1) % 9)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    ids, cache = torch.randint(0, 9, (2, 3)), None
    for _ in range(5):
        scores, cache = model(ids, {given})
        token = scores.argmax(-1, keepdim=True)
        ids = {following}
"""
)
FUSED = "x = x + F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)"
BY_HAND = "x = x + (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1) @ v"
FROM_ZERO = {
    "numbers": ("x = x + self.place(torch.arange(ids.size(1)))  # HERE", FUSED),
    "numbers for each sample": (
        "x = x + self.place(torch.arange(0, ids.shape[1]).unsqueeze(0).expand_as(ids))  # HERE",
        BY_HAND,
    ),
    "the beginning of a table": ("x = x + self.table[:, : x.size(1)]  # HERE", FUSED),
    "the beginning of a parameter": ("x = x + self.place.weight[: x.size(1)]  # HERE", BY_HAND),
}
COUNTED_ON = {
    "numbers": ("x = x + self.place(torch.arange(kept, kept + ids.size(1)))", FUSED),
    "a part of a table": ("x = x + self.table[:, kept : kept + x.size(1)]", FUSED),
    "the kind of a token": ("x = x + self.table[:, 0:1]", FUSED),
    "no positions": ("x = x * 1.5", BY_HAND),
}


def _script(place: str, attend: str, given: str = "cache", following: str = "token") -> str:
    made = "self.place = nn.Embedding(16, 8)" if "self.place" in place else "pass"
    return MODEL.format(made=made, place=place, attend=attend, given=given, following=following)


@pytest.mark.parametrize("name", FROM_ZERO)
def test_positions_that_begin_again_beside_a_cache_are_told(name: str, tmp_path: Path) -> None:
    script = _script(*FROM_ZERO[name])
    assert_first_alarm(script, "positions_start_again", tmp_path)


@pytest.mark.parametrize("name", COUNTED_ON)
def test_positions_that_go_on_are_left_alone(name: str, tmp_path: Path) -> None:
    assert alarms(_script(*COUNTED_ON[name]), tmp_path) == []


@pytest.mark.parametrize("name", FROM_ZERO)
def test_positions_of_all_tokens_without_a_cache_are_left_alone(name: str, tmp_path: Path) -> None:
    script = _script(*FROM_ZERO[name], given="None", following="torch.cat([ids, token], 1)")
    assert alarms(script, tmp_path) == []
