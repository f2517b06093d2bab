"""Loops over the children of a model that switch the modules of a class, of which others lie deeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

MODEL = (
    HEAD
    + """
class Adapter(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)
        self.down, self.up = nn.Parameter(torch.randn(2, width)), nn.Parameter(0.1 * torch.randn(width, 2))
        self.enabled = True
    def turn(self, on):
        self.enabled = on
    def forward(self, x):
        y = super().forward(x)
        return y + F.linear(F.linear(x, self.down), self.up) if self.enabled else y
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.inner, self.drop = nn.BatchNorm1d(width), Adapter(width), nn.Dropout(0.1)
    def forward(self, x):
        return x + self.drop(torch.tanh(self.inner(self.norm(x))))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.1)
        self.blocks, self.last, self.out = nn.ModuleList(Block(8) for _ in range(2)), Adapter(8), nn.Linear(8, 3)
    def forward(self, x):
        x = self.drop(self.norm(self.first(x)))
        for block in self.blocks:
            x = block(x)
        return self.out(self.last(x))
"""
)
MADE = """
net = Net()
"""
COMPARED = """
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    switch(net, False)
    with torch.no_grad():
        reference = net(x).log_softmax(-1)
    switch(net, True)
    loss = F.cross_entropy(net(x), torch.randint(0, 3, (16,))) + F.kl_div(net(x).log_softmax(-1), reference,
        log_target=True, reduction="batchmean")
"""
FAULTY = {
    "an attribute": """
def switch(model, on):
    for m in model.children():  # HERE
        if isinstance(m, Adapter):
            m.enabled = on
""",
    "an attribute that is asked for": """
def switch(model, on):
    for name, m in model.named_children():  # HERE
        if hasattr(m, "enabled"):
            setattr(m, "enabled", on)
""",
    "a list": """
def switch(model, on):
    adapters = [m for m in model.children() if isinstance(m, Adapter)]  # HERE
    for m in adapters:
        m.enabled = on
""",
    "a filter, and what is no adapter left out": """
def switch(model, on):
    for m in filter(lambda each: isinstance(each, nn.Linear), model.children()):  # HERE
        if not isinstance(m, Adapter):
            continue
        m.enabled = on
""",
    "a method of the module": """
def switch(model, on):
    for m in list(model.children()):  # HERE
        if type(m) is Adapter:
            m.turn(on)
""",
}
RIGHT = {
    "all modules": FAULTY["an attribute"].replace("children", "modules"),
    "a function that calls itself": """
def switch(model, on):
    for m in model.children():
        if isinstance(m, Adapter):
            m.enabled = on
        else:
            switch(m, on)
""",
    "the others in another loop": """
def switch(model, on):
    for m in model.children():
        if isinstance(m, Adapter):
            m.enabled = on
    for block in model.blocks:
        block.inner.enabled = on
""",
    "each block by itself": """
def of_one(module, on):
    for m in module.children():
        if isinstance(m, Adapter):
            m.enabled = on
def switch(model, on):
    for module in model.modules():
        of_one(module, on)
""",
    "those of each block in a loop over its children": """
def switch(model, on):
    for m in model.children():
        if isinstance(m, Adapter):
            m.enabled = on
    for block in model.blocks:
        for m in block.children():
            if isinstance(m, Adapter):
                m.enabled = on
""",
    "one of them by name": """
def switch(model, on):
    for name, m in model.named_children():
        if isinstance(m, Adapter) and name == "last":
            m.enabled = on
""",
    "said to be for the outermost": """
def switch(model, on):
    # Only adapters directly in the model: those in its blocks are a part of the reference.
    for m in model.children():
        if isinstance(m, Adapter):
            m.enabled = on
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_switch_that_reaches_only_children_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + MADE + COMPARED + TRAIN, "attribute_without_effect", tmp_path)


@pytest.mark.parametrize("name", RIGHT)
def test_switches_that_reach_all_or_are_meant_so_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + RIGHT[name] + MADE + COMPARED + TRAIN, tmp_path)


TUNED = """
optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
for step in range(4):
    loss = F.cross_entropy(net(torch.randn(16, 6)), torch.randint(0, 3, (16,)))
"""
FROZEN = {
    "normalizations": """
for m in net.children():  # HERE
    if isinstance(m, nn.BatchNorm1d):
        m.requires_grad_(False)
        m.eval()
""",
    "parameters of normalizations": """
for m in net.children():  # HERE
    if isinstance(m, nn.modules.batchnorm._BatchNorm):
        for p in m.parameters():
            p.requires_grad = False
""",
    "a comprehension": """
[m.requires_grad_(False) for m in net.children() if isinstance(m, Adapter)]  # HERE
""",
    "the rate of dropout": """
for m in net.children():  # HERE
    if isinstance(m, nn.Dropout):
        m.p = 0.3
""",
}
RIGHT_FREEZES = {
    "all normalizations": FROZEN["normalizations"].replace("children", "modules"),
    "the rest by another line": FROZEN["normalizations"] + "net.blocks.requires_grad_(False)\nnet.blocks.eval()\n",
    "the linear layers of a frozen model": """
net.requires_grad_(False)
for m in net.children():
    if isinstance(m, (nn.Linear, nn.ModuleList)):
        m.requires_grad_(True)
""",
    "a feature extractor": """
body = nn.Sequential(*[m for m in net.children() if not isinstance(m, nn.ModuleList)][:2])
for child in list(net.children())[:2]:
    for p in child.parameters():
        p.requires_grad = False
""",
    "blocks, with what is in them": """
for m in net.blocks.children():
    if isinstance(m, Block):
        m.requires_grad_(False)
""",
}


@pytest.mark.parametrize("name", FROZEN)
def test_a_layer_deeper_in_a_model_that_stays_as_it_was_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + MADE + FROZEN[name] + TUNED + TRAIN, "attribute_without_effect", tmp_path)


@pytest.mark.parametrize("name", RIGHT_FREEZES)
def test_layers_that_are_frozen_as_is_meant_are_right(name: str, tmp_path: Path) -> None:
    told = {each.cause for each in alarms(MODEL + MADE + RIGHT_FREEZES[name] + TUNED + TRAIN, tmp_path)}
    assert "attribute_without_effect" not in told


def test_a_reference_without_adapters_in_a_with_block(tmp_path: Path) -> None:
    # The loop reaches none: the only adapters are in the blocks.
    method = """
    @contextmanager
    def plain(self):
        for m in self.children():  # HERE
            if isinstance(m, Adapter):
                m.enabled = False
        yield self
        for m in self.modules():
            if isinstance(m, Adapter):
                m.enabled = True
"""
    script = "from contextlib import contextmanager\n" + MODEL + method + MADE + COMPARED
    script = script.replace("    switch(net, False)\n", "").replace("    switch(net, True)\n", "")
    script = script.replace("Adapter(8), nn.Linear(8, 3)", "nn.Linear(8, 8), nn.Linear(8, 3)")
    script = script.replace("with torch.no_grad():", "with torch.no_grad(), net.plain():") + TRAIN
    assert_first_alarm(script, "attribute_without_effect", tmp_path)
    told = next(each for each in findings(script, tmp_path) if each.cause == "attribute_without_effect")
    assert "reaches no Adapter" in told.message
    assert "write modules() instead of children()" in (told.fix or "")
    assert not alarms(script.replace("children()", "modules()"), tmp_path)
