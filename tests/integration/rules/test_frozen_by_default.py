"""Embeddings that ``from_pretrained`` freezes, and optimizers that get them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, findings

TOWERS = """
class Towers(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.users = nn.Embedding(10, 4)
        self.items = {items}
        self.mix = nn.Linear(4, 4)

    def forward(self, u, i):
        return (self.mix(self.users(u)) * self.items(i)).sum(-1)


model = Towers(torch.randn(12, 4))
tables = [model.users.weight, model.items.weight]
{optimizers}
for step in range(3):
    u, i, y = torch.randint(10, (6,)), torch.randint(12, (6,)), torch.randn(6)
    loss = F.mse_loss(model(u, i), y)
    for each in optimizers:
        each.zero_grad()
    loss.backward()
    for each in optimizers:
        each.step()
"""
FROZEN = "nn.Embedding.from_pretrained(table)  # HERE"
IN_LINES = "nn.Embedding.from_pretrained(  # HERE\n            table,\n            padding_idx=0,\n        )"
TWO = "optimizers = torch.optim.Adam(tables), torch.optim.SGD(model.mix.parameters(), lr=0.1)"
GROUPS = "optimizers = [torch.optim.Adam([{'params': tables, 'lr': 0.01}, {'params': model.mix.parameters()}], lr=0.1)]"
MODULES = (
    "optimizers = torch.optim.Adam([*model.users.parameters(), *model.items.parameters()]), "
    "torch.optim.SGD(model.mix.parameters(), lr=0.1)"
)
MEANT = {
    "the whole model": (FROZEN, "optimizers = [torch.optim.Adam(model.parameters())]"),
    "groups by weight decay": (
        FROZEN,
        "decayed = [p for p in model.parameters() if p.ndim > 1]\n"
        "others = [p for p in model.parameters() if p.ndim < 2]\n"
        "optimizers = [torch.optim.AdamW([{'params': decayed}, {'params': others, 'weight_decay': 0.0}])]",
    ),
    "not in the optimizer": (
        FROZEN,
        "optimizers = [torch.optim.Adam(p for p in model.parameters() if p.requires_grad)]",
    ),
    "not frozen": ("nn.Embedding.from_pretrained(table, freeze=False)", TWO),
    "frozen on purpose": ("nn.Embedding.from_pretrained(table, freeze=True)", TWO),
    "a part of a module": (
        "nn.Sequential(nn.Embedding.from_pretrained(table), nn.Linear(4, 4))",
        "optimizers = torch.optim.Adam([model.users.weight, *model.items.parameters()]), "
        "torch.optim.SGD(model.mix.parameters(), lr=0.1)",
    ),
}


@pytest.mark.parametrize("items", [FROZEN, IN_LINES])
@pytest.mark.parametrize("optimizers", [TWO, GROUPS, MODULES])
def test_a_table_that_a_default_froze_is_told_where_it_is_made(items: str, optimizers: str, tmp_path: Path) -> None:
    script = HEAD + TOWERS.format(items=items, optimizers=optimizers)
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    (found,) = alarms(script, tmp_path)
    assert (found.code, found.location and found.location.line, found.tensors) == (
        "GV701",
        here,
        ("model.items.weight",),
    )
    assert "freeze=False" in found.fix


@pytest.mark.parametrize(("items", "optimizers"), MEANT.values(), ids=MEANT)
def test_a_frozen_table_in_a_model_may_be_meant(items: str, optimizers: str, tmp_path: Path) -> None:
    script = HEAD + TOWERS.format(items=items, optimizers=optimizers)
    if "Sequential" in items:
        script = script.replace("tables = [model.users.weight, model.items.weight]\n", "")
    assert alarms(script, tmp_path) == []


def test_a_table_that_a_default_froze_is_a_note_where_nobody_asks_to_train_it(tmp_path: Path) -> None:
    script = HEAD + TOWERS.format(items=FROZEN, optimizers=MEANT["not in the optimizer"][1])
    assert [(each.code, each.tensors) for each in findings(script, tmp_path)] == [("GV701", ("model.items.weight",))]
    meant = HEAD + TOWERS.format(items=MEANT["frozen on purpose"][0], optimizers=MEANT["not in the optimizer"][1])
    assert findings(meant, tmp_path) == ()


SPLIT = """gentle, usual = [], []
for name, p in model.named_parameters():
    if p.requires_grad:
        (gentle if "items" in name else usual).append(p)
optimizers = [torch.optim.Adam([{'params': usual}, {'params': gentle, 'lr': 1e-4}], lr=0.1)]"""


def test_a_table_that_a_default_froze_is_told_where_a_group_stays_empty(tmp_path: Path) -> None:
    (found,) = alarms(HEAD + TOWERS.format(items=FROZEN, optimizers=SPLIT), tmp_path)
    assert (found.code, found.tensors) == ("GV701", ("model.items.weight",))
    assert "group" in found.message


SWITCHES = """
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
for p in model.parameters():
    p.requires_grad = False
{}
model[4] = nn.Linear(4, 1)
optimizer = torch.optim.SGD([{{"params": model[2].parameters()}}, {{"params": model[4].parameters()}}], lr=0.1)
for step in range(3):
    loss = model(torch.randn(6, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
UNFREEZE_NOTHING = (
    "model[2].requires_grad = True",
    "for part in (model[2],):\n    part.requires_grad = True",
)


@pytest.mark.parametrize("switch", UNFREEZE_NOTHING)
def test_an_attribute_that_unfreezes_nothing_is_told_at_its_line(switch: str, tmp_path: Path) -> None:
    script = HEAD + SWITCHES.format(switch)
    here = next(n for n, line in enumerate(script.splitlines(), 1) if line.endswith(".requires_grad = True"))
    first, *_ = alarms(script, tmp_path)
    assert (first.code, first.location and first.location.line) == ("GV701", here)
    assert "requires_grad = True" in first.message
    assert "requires_grad_(True)" in (first.fix or "")


def test_a_module_that_is_unfrozen_trains(tmp_path: Path) -> None:
    assert not alarms(HEAD + SWITCHES.format("model[2].requires_grad_(True)"), tmp_path)


PLAYERS = """
generator, critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
of_generator, of_critic = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (generator, critic))
for _ in range(4):
    critic.requires_grad_(False)
    loss = critic(generator(torch.ones(3, 2))).mean()
    of_generator.zero_grad()
    loss.backward()
    of_generator.step()
    loss = critic(generator(torch.ones(3, 2))).square().mean()
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
"""


def test_a_player_that_stays_frozen_is_told_and_not_what_its_backward_left_in_the_other(tmp_path: Path) -> None:
    assert [found.code for found in alarms(HEAD + PLAYERS, tmp_path)] == ["GV701"]
