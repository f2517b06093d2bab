"""What libraries do that looks like a mistake, written in one file; and the mistake that it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

FROZEN = """
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.mix, self.out = nn.Dropout(0.1), nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x, prefix):
        h = torch.cat([prefix.expand(len(x), -1, -1), self.drop(x)], 1)
        return self.out({dropped}.mean(1))
class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body().requires_grad_(False)
        self.prefix = nn.Parameter(torch.randn(1, 2, 8)){more}
    def forward(self, x):
        return {result}
def main():
    model = Prompted()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    model.train()
    for step in range(4):
        x = torch.randn(6, 5, 8)
        loss = F.cross_entropy(model(x), {wanted})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""
LABELS = "(x[:, 0, 0] > 0).long()"
CENTRED = """
points, scale = nn.Parameter(torch.randn(12, 2)), nn.Parameter(torch.ones(()))
others = {others}
optimizer = torch.optim.Adam([points, scale, *(p for each in others for p in each.parameters())], lr=0.01)
def squared(a, b):
    middle = a.mean(-2, keepdim=True)
    {used}
    return (a.square().sum(-1, keepdim=True) + b.square().sum(-1) - 2 * a @ b.mT).clamp(min=0)
for step in range(4):
    x = torch.randn(12, 2)
    middle = points.mean(0)
    near = torch.exp(-squared((points - middle) / scale, (x - middle) / scale))
    loss = (near.mean(0) - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEALTHY = {
    "a frozen model that drops what it reads and what it makes of that and of a trained prefix": FROZEN.format(
        dropped="self.drop(self.mix(h).tanh())", result="self.body(x, self.prefix)", wanted=LABELS, more=""
    ),
    "values that are centred once more, with those that they are compared with": CENTRED.format(
        used="a, b = a - middle, b - middle", others="[]"
    ),
    "the same, of the values alone": CENTRED.format(used="a = a.sub(middle)", others="[]"),
}
FAULTY = {
    "a frozen model that drops values of targets": (
        FROZEN.format(
            dropped="self.drop(self.mix(h).tanh())",
            result="self.head(x.mean(1)) + self.prefix.mean()",
            wanted="model.body(x, x[:1, :2]).softmax(1)",
            more="; self.head = nn.Linear(8, 2)",
        ),
        "training_mode",
    ),
    "a mean of centred values that the loss reads": (
        CENTRED.format(used="a = a - middle + others[0](middle)", others="nn.ModuleList([nn.Linear(2, 1)])"),
        "cancels_to_zero",
    ),
}


@pytest.mark.parametrize("case", HEALTHY)
def test_what_libraries_do_is_not_told(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []


@pytest.mark.parametrize("case", FAULTY)
def test_what_it_looks_like_is_told(case: str, tmp_path: Path) -> None:
    script, cause = FAULTY[case]
    assert [each.cause for each in alarms(HEAD + script, tmp_path)] == [cause]
