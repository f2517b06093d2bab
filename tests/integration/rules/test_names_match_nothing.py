"""Parameters that are chosen by texts in their names, and texts that are in no name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
        self.norm1 = nn.LayerNorm(8)
        self.out = nn.Linear(8, 3)
    def forward(self, x):
        return self.out(self.norm1(self.trunk(x)))
model = Net()
"""
)
TRAIN = """
for step in range(3):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(16, 6)), torch.randint(0, 3, (16,))).backward()
    optimizer.step()
"""
SPLIT = """
decay = [p for n, p in model.named_parameters() if not {test}]
plain = [p for n, p in model.named_parameters() if {test}]
optimizer = torch.optim.AdamW([{{"params": decay, "weight_decay": 0.1}}, {{"params": plain, "weight_decay": 0.0}}])
"""
FAULTY = {
    "one of the names": "skip = ['bias', 'LayerNorm.weight']  # HERE" + SPLIT.format(test="any(k in n for k in skip)"),
    "all of the names": "SKIP = ('BatchNorm', 'LayerNorm')  # HERE" + SPLIT.format(test="any(k in n for k in SKIP)"),
    "the ends of names": "ends = ('.bias', '.scale')  # HERE" + SPLIT.format(test="n.endswith(ends)"),
    "in a loop": """
def groups(model, decay=0.05):
    with_decay, without = [], []
    for name, p in model.named_parameters():
        if name.endswith(".bias") or "ln_" in name:  # HERE
            without.append(p)
        else:
            with_decay.append(p)
    return [{"params": with_decay, "weight_decay": decay}, {"params": without, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups(model), lr=1e-3)
""",
    "a group with a rate of its own": """
slow = [p for n, p in model.named_parameters() if n.startswith("backbone")]  # HERE
fast = [p for n, p in model.named_parameters() if not n.startswith("backbone")]
optimizer = torch.optim.SGD([{"params": slow, "lr": 1e-4}, {"params": fast}], lr=0.1)
""",
    "what should be frozen": """
def freeze(model):
    for name, p in model.named_parameters():
        if "encoder" in name:  # HERE
            p.requires_grad = False
freeze(model)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
""",
}
HEALTHY = {
    "names of this model": "skip = ['bias', 'norm1.weight']" + SPLIT.format(test="any(k in n for k in skip)"),
    "names of several models": "skip = ['bias', 'LayerNorm', 'norm']" + SPLIT.format(test="any(k in n for k in skip)"),
    "numbers of axes": SPLIT.format(test="(p.ndim < 2)"),
    "no scales": "model.norm1 = nn.Identity()\nskip = ['bias', 'LayerNorm.weight']"
    + SPLIT.format(test="any(k in n for k in skip)"),
    "a group with a rate of its own": """
slow = [p for n, p in model.named_parameters() if n.startswith("trunk")]
fast = [p for n, p in model.named_parameters() if not n.startswith("trunk")]
optimizer = torch.optim.SGD([{"params": slow, "lr": 1e-4}, {"params": fast}], lr=0.1)
""",
    "what is frozen": """
for name, p in model.named_parameters():
    if name.startswith("trunk.0."):
        p.requires_grad_(False)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
""",
    "what is only frozen on demand": """
def freeze(model, on=False):
    if on:
        for name, p in model.named_parameters():
            if "encoder" in name:
                p.requires_grad = False
freeze(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    "what is printed": """
for name, p in model.named_parameters():
    if "encoder" in name:
        print(name, p.shape)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_text_that_is_in_no_name_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "names_match_nothing", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_texts_that_are_in_names_or_decide_nothing_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + TRAIN, tmp_path)


def test_a_model_that_is_gone_at_the_end_was_frozen_otherwise(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
def main():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    for name, p in model.named_parameters():
        if "encoder" in name:
            p.requires_grad = False
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for step in range(4):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        F.mse_loss(model(x), x[:, :1]).backward()
        optimizer.step()
main()
"""
    )
    assert not alarms(script, tmp_path)
