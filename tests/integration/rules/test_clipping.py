"""Clipping that receives no parameters, and clipping of nothing that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

WRONG = {
    "filter, which the optimizer used up": """
model = nn.Linear(4, 1)
params = filter(lambda p: p.requires_grad, model.parameters())  # HERE
optimizer = torch.optim.SGD(params, lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(5, 4)).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(params, 0.1)
    optimizer.step()
""",
    "a generator over several lines, in a class": """
class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        self.weights = (  # HERE
            p for name, p in self.net.named_parameters() if "bias" not in name
        )
        self.adam = torch.optim.Adam(self.weights, lr=1e-2)
    def fit(self):
        for _ in range(4):
            F.cross_entropy(self.net(torch.randn(6, 3)), torch.randint(0, 2, (6,))).backward()
            norm = nn.utils.clip_grad_norm_(self.weights, max_norm=1.0)
            self.adam.step()
            self.adam.zero_grad()
Trainer().fit()
""",
    "parameters() once, for all steps": """
encoder = nn.GRU(3, 4)
everything = encoder.parameters()  # HERE
optimizer = torch.optim.RMSprop(encoder.parameters())
for _ in range(3):
    out, _ = encoder(torch.randn(5, 2, 3))
    optimizer.zero_grad()
    out.pow(2).sum().backward()
    nn.utils.clip_grad_norm_(everything, 0.5)
    optimizer.step()
""",
}
RIGHT = {
    "a list of what is not there": """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tables = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
print(len(tables))
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(5, 4)).square().mean().backward()
    nn.utils.clip_grad_norm_(tables, 0.1)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
    "an iterator made anew at each step, over a part without gradients": """
body, spare = nn.Linear(4, 2), nn.Linear(4, 2).requires_grad_(False)
optimizer = torch.optim.Adam(body.parameters())
for step in range(3):
    loss = body(torch.randn(5, 4)).square().mean() + spare(torch.randn(5, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    given = spare.parameters()
    nn.utils.clip_grad_norm_(given, 1.0)
    optimizer.step()
""",
    "a list from a filter": """
net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
trained = list(filter(lambda p: p.requires_grad, net.parameters()))
optimizer = torch.optim.AdamW(trained)
for step in range(3):
    net(torch.rand(5, 4)).exp().mean().backward()
    nn.utils.clip_grad_norm_(trained, 0.1)
    optimizer.step()
    optimizer.zero_grad()
""",
}


@pytest.mark.filterwarnings("ignore:`parameters` is an empty generator")
@pytest.mark.parametrize("script", WRONG.values(), ids=WRONG)
def test_clipping_of_no_parameters_is_told_where_the_iterator_is_made(script: str, tmp_path: Path) -> None:
    script = HEAD + script
    assert_first_alarm(script, "clip_misplaced", tmp_path)
    told = [each for each in alarms(script, tmp_path) if each.cause == "clip_misplaced"]
    assert ["it was given no parameters" in each.message for each in told] == [True]


@pytest.mark.parametrize("script", RIGHT.values(), ids=RIGHT)
def test_clipping_of_nothing_that_is_meant_is_no_alarm(script: str, tmp_path: Path) -> None:
    assert "clip_misplaced" not in {each.cause for each in alarms(HEAD + script, tmp_path)}


def test_a_clip_behind_a_backward_that_brings_nothing_is_not_said_to_come_too_early(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    fast = [p.detach().requires_grad_() for p in model.parameters()]
    x = torch.randn(8, 4)
    loss = (F.linear(x, *fast) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
    )
    causes = [each.cause for each in alarms(script, tmp_path)]
    assert causes[0] == "detached" and "clip_misplaced" not in causes
