"""Penalties and steps by hand that go through the parameters of each module, and so several times through some."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

MODEL = (
    HEAD
    + """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, width), nn.Tanh())
    def forward(self, x):
        return x + self.body(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.blocks, self.out = nn.Linear(6, 8), nn.ModuleList(Block(8) for _ in range(2)), nn.Linear(8, 1)
    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
"""
)
LOOP = """
for step in range(4):
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    loss = F.mse_loss(net(x), y)
"""
BY_HAND = """
for step in range(4):
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    loss = F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
{change}
    optimizer.step()
"""
FAULTY = {
    "two loops": LOOP
    + """
    size = 0.0
    for module in net.modules():
        for p in module.parameters():  # HERE
            size = size + p.square().sum()
    loss = loss + 1e-3 * size
""",
    "one expression": LOOP
    + """
    loss = loss + 1e-3 * sum(p.pow(2).sum() for m in net.modules() for p in m.parameters() if p.ndim > 1)  # HERE
""",
    "names, and a list of norms": LOOP
    + """
    sizes = []
    for _, module in net.named_modules():
        sizes += [p.norm() for name, p in module.named_parameters() if "weight" in name]  # HERE
    loss = loss + 1e-3 * torch.stack(sizes).sum()
""",
    "containers left in by the condition": LOOP
    + """
    for m in net.modules():
        if isinstance(m, (nn.Linear, Block)):
            loss = loss + 1e-3 * sum(p.abs().sum() for p in m.parameters())  # HERE
""",
    "a function for one module": """
def size(module):
    return sum(p.square().sum() for p in module.parameters())  # HERE
"""
    + LOOP
    + """
    loss = loss + 1e-3 * sum(size(m) for m in net.modules())
""",
    "a function that calls itself for the children": """
def size(module):
    own = sum(p.square().sum() for p in module.parameters())  # HERE
    for child in module.children():
        own = own + size(child)
    return own
"""
    + LOOP
    + """
    loss = loss + 1e-3 * size(net)
""",
    "the distance from the first weights": """
first = {p: p.detach().clone() for p in net.parameters()}
"""
    + LOOP
    + """
    for m in net.modules():
        for p in m.parameters():  # HERE
            loss = loss + 1e-3 * (p - first[p]).square().sum()
""",
}
HEALTHY = {
    "own parameters only": """
    for m in net.modules():
        for p in m.parameters(recurse=False):
            loss = loss + 1e-3 * p.square().sum()
""",
    "one loop": """
    loss = loss + 1e-3 * sum(p.square().sum() for p in net.parameters())
""",
    "layers only": """
    for m in net.modules():
        if isinstance(m, nn.Linear):
            for p in m.parameters():
                loss = loss + 1e-3 * p.square().sum()
""",
    "layers only, for a part and for the whole": """
    def size(part):
        return sum(p.square().sum() for m in part.modules() if not list(m.children()) for p in m.parameters())
    loss = loss + 1e-3 * size(net)
    loss = loss + 1e-4 * size(net.blocks)
""",
    "children": """
    for child in net.children():
        for p in child.parameters():
            loss = loss + 1e-3 * p.square().sum()
""",
    "those that were not seen": """
    seen = set()
    for m in net.modules():
        for p in m.parameters():
            if p not in seen:
                seen.add(p)
                loss = loss + 1e-3 * p.square().sum()
""",
    "the largest norm": """
    norms = [p.norm() for m in net.modules() for p in m.parameters()]
    loss = loss + 1e-3 * torch.stack(norms).max()
""",
    "norms that are shown": """
    with torch.no_grad():
        for name, m in net.named_modules():
            print(name, sum(p.norm() for p in m.parameters()).item())
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_penalty_that_counts_weights_by_their_depth_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "same_term_twice", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_penalties_that_count_each_weight_once_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + LOOP + HEALTHY[name] + TRAIN, tmp_path)


def test_a_tied_weight_may_be_counted_with_each_of_its_layers(tmp_path: Path) -> None:
    tied = MODEL.replace("net = Net()", "net = Net()\nnet.blocks[1].body[0].weight = net.blocks[0].body[0].weight")
    assert not alarms(tied + LOOP + HEALTHY["layers only"] + TRAIN, tmp_path)


CHANGES = {
    "a decay of the weights": """
    with torch.no_grad():
        for m in net.modules():
            for p in m.parameters():  # HERE
                p.mul_(1 - 1e-3)
""",
    "a decay in the gradients": """
    for m in net.modules():
        for p in m.parameters():  # HERE
            p.grad.add_(p.detach(), alpha=1e-3)
""",
    "a function that is applied": """
    @torch.no_grad()
    def shrink(m):
        for p in m.parameters():  # HERE
            p.sub_(p, alpha=1e-3)
    net.apply(shrink)
""",
}
RIGHT_CHANGES = {
    "own parameters": CHANGES["a decay of the weights"].replace("m.parameters()", "m.parameters(recurse=False)"),
    "masks": CHANGES["a decay of the weights"].replace("p.mul_(1 - 1e-3)", "p.mul_((p.abs() > 1e-6).float())"),
    "bounds": CHANGES["a decay of the weights"].replace("p.mul_(1 - 1e-3)", "p.clamp_(-2, 2)"),
    "bounds of gradients": CHANGES["a decay in the gradients"].replace(
        "p.grad.add_(p.detach(), alpha=1e-3)", "p.grad.clamp_(-1, 1)"
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_by_hand_that_comes_to_weights_by_their_depth_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + BY_HAND.format(change=CHANGES[name]), "counted_by_parameter", tmp_path)


@pytest.mark.parametrize("name", RIGHT_CHANGES)
def test_changes_that_may_come_several_times_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + BY_HAND.format(change=RIGHT_CHANGES[name]), tmp_path)


def test_the_advice_cures_and_says_how_often_a_weight_was_counted(tmp_path: Path) -> None:
    wrong = MODEL + FAULTY["two loops"] + TRAIN
    told = next(each for each in findings(wrong, tmp_path) if each.cause == "same_term_twice")
    assert "net.blocks.0.body.0.weight 5 times and net.inp.weight 2 times" in told.message
    assert "parameters(recurse=False)" in (told.fix or "")
    assert not alarms(wrong.replace("module.parameters()", "module.parameters(recurse=False)"), tmp_path)
