"""Which positions of a sequence a program reads, in other spellings, and code that is right and looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_MIXED = """
class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(0.1 * torch.randn(7, 7))
        self.register_buffer("mask", torch.ones(7, 7).tril())
    def forward(self, h):
        t = h.size(1)
        return h + {mixed}
embed, mixer, head = nn.Embedding(9, 6), Mix(), nn.Linear(6, 9)
optimizer = torch.optim.Adam([*embed.parameters(), *mixer.parameters(), *head.parameters()], lr=0.01)
for step in range(3):
    tokens = torch.randint(0, 9, (5, 8))
    logits = head(mixer(embed(tokens[:, :-1])))
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
""" + TRAIN.replace("{", "{{")

FAULTS = {
    "einsum over the rows of a lower triangle": (
        "future_visible",
        _MIXED.format(mixed='torch.einsum("ij,bid->bjd", self.mix[:t, :t].tril(), h)  # HERE'),
    ),
    "a product with the transposed lower triangle": (
        "future_visible",
        _MIXED.format(mixed="(self.mix * self.mask).T @ h  # HERE"),
    ),
    "features times a lower triangle": (
        "future_visible",
        _MIXED.format(mixed="(h.mT @ self.mix.tril()).mT  # HERE"),
    ),
    "a softmax of the wrong half": (
        "future_visible",
        _MIXED.format(
            mixed='self.mix.masked_fill(self.mask == 1, float("-inf")).fill_diagonal_(0).softmax(-1) @ h  # HERE'
        ),
    ),
    "a matrix without a mask": (
        "future_visible",
        _MIXED.format(mixed="self.mix[:t, :t] @ h  # HERE"),
    ),
    "a linear layer over positions": (
        "future_visible",
        _MIXED.format(mixed="F.linear(h.mT, self.mix).mT  # HERE"),
    ),
}

HEALTHY = {
    "einsum over the columns of a lower triangle": _MIXED.format(
        mixed='torch.einsum("ij,bjd->bid", self.mix[:t, :t].tril(), h)'
    ),
    "features times an upper triangle": _MIXED.format(mixed="(h.mT @ self.mix.triu()).mT"),
    "a masked matrix": _MIXED.format(mixed="(self.mix * self.mask) @ h"),
    "a softmax of the lower triangle": _MIXED.format(
        mixed='self.mix.masked_fill(self.mask == 0, float("-inf")).softmax(-1) @ h'
    ),
    "as many features as positions": _MIXED.format(mixed="F.linear(h, self.mix)").replace(
        "nn.Embedding(9, 6), Mix(), nn.Linear(6, 9)", "nn.Embedding(9, 7), Mix(), nn.Linear(7, 9)"
    ),
}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=FAULTS)
def test_fault(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_healthy(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []
