"""Parameters that one stage of a training holds and cuts off, and that another stage trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, assert_first_alarm, findings

MODELS = """
def small(): return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
student, regressor = small(), nn.Linear(8, 8)
body, head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 3)
    def forward(self, x): return self.head(self.body(x))
net = Net()
x, y, hint = torch.randn(32, 6), torch.randint(0, 3, (32,)), torch.randn(32, 8)
def train(optimizer, loss_of, steps=4):
    for step in range(steps):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def sgd(*modules): return torch.optim.SGD([p for m in modules for p in m.parameters()], lr=0.1)
"""
TAP = """
kept = {}
def keep(module, args, output):
    kept["hint"] = output.detach()HERE
student[2].register_forward_hook(keep)
def hint_loss(step):
    student(x)
    return F.mse_loss(regressor(kept["hint"]), hint)
"""
LABELS = "train(sgd(student), lambda step: F.cross_entropy(student(x), y))\n"
HINTS = "train(sgd(student[0], student[2], regressor), hint_loss)\n"
FAULTY = {
    "a hook that detaches what a hint is compared with": TAP.replace("HERE", "  # HERE") + HINTS + LABELS,
    "all of a network beside another one": TAP.replace("HERE", "  # HERE")
    + "train(sgd(student, regressor), hint_loss)\n"
    + LABELS,
    "only what is a tensor is kept": TAP.replace(
        'kept["hint"] = output.detach()HERE',
        'if isinstance(output, torch.Tensor):\n        kept["hint"] = output.detach()  # HERE',
    )
    + HINTS
    + LABELS,
}
MEANT = {
    "an optimizer of the head alone": """
train(sgd(head), lambda step: F.cross_entropy(head(body(x).detach()), y))
train(sgd(body, head), lambda step: F.cross_entropy(head(body(x)), y))
""",
    "a linear evaluation of trained features": """
train(sgd(body, regressor), lambda step: F.mse_loss(regressor(body(x)), hint))
train(sgd(body, head), lambda step: F.cross_entropy(head(body(x).detach()), y))
""",
    "a head that begins, in a whole model": """
train(torch.optim.SGD(net.parameters(), lr=0.1), lambda step: F.cross_entropy(net.head(net.body(x).detach()), y))
train(torch.optim.SGD(net.parameters(), lr=0.1), lambda step: F.cross_entropy(net(x), y))
""",
    "a stage that is told to cut": """
def logits(stage):
    h = body(x)
    if stage == 0:
        h = h.detach()
    return head(h)
for stage in range(2):
    train(sgd(body, head), lambda step: F.cross_entropy(logits(stage), y))
""",
    "one optimizer, whose first steps train the head": """
train(sgd(body, head), lambda step: F.cross_entropy(head(body(x).detach() if step < 3 else body(x)), y), 6)
""",
    "an actor that shares the encoder of its critic": """
critic, actor = sgd(body, regressor), sgd(body, head)
for turn in range(3):
    train(critic, lambda step: F.mse_loss(regressor(body(x)), hint), 1)
    train(actor, lambda step: F.cross_entropy(head(body(x).detach()), y), 1)
""",
    "a target that learns later": """
train(sgd(body, student), lambda step: F.mse_loss(student[:3](x), body(x).detach()))
train(sgd(body, head), lambda step: F.cross_entropy(head(body(x)), y))
""",
    "features that are frozen first": """
body.requires_grad_(False)
train(sgd(body, head), lambda step: F.cross_entropy(head(body(x).detach()), y))
body.requires_grad_(True)
train(sgd(body, head), lambda step: F.cross_entropy(head(body(x)), y))
""",
    "a hook that logs": TAP.replace("HERE", "")
    + "train(sgd(student), lambda step: F.cross_entropy(student(x), y) + 0 * kept['hint'].norm())\n"
    + LABELS,
    "layers that train one after the other": """
for k in (0, 2):
    layer, end = student[k], nn.Linear(8, 3)
    train(sgd(layer, end), lambda step: F.cross_entropy(end(layer(student[:k](x).detach())), y))
train(sgd(student), lambda step: F.cross_entropy(student(x), y))
""",
}


@pytest.mark.parametrize("middle", FAULTY.values(), ids=FAULTY)
def test_a_stage_that_cuts_off_what_its_optimizer_holds(middle: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODELS + middle, "detached", tmp_path)


def test_the_message_names_the_optimizer_of_the_stage(tmp_path: Path) -> None:
    script = HEAD + MODELS + FAULTY["a hook that detaches what a hint is compared with"]
    found = findings(script, tmp_path)
    made = next(number for number, line in enumerate(script.splitlines(), 1) if line.startswith("def sgd"))
    assert f"in any of the 4 steps of the optimizer of train.py:{made}" in found[0].message
    assert "idle_graph" not in [each.cause for each in found]  # the detach() is why no backward used it


@pytest.mark.parametrize("middle", MEANT.values(), ids=MEANT)
def test_a_stage_that_cuts_on_purpose(middle: str, tmp_path: Path) -> None:
    found = findings(HEAD + MODELS + middle, tmp_path)
    assert [each.message for each in found if each.cause == "detached" and each.is_alarm] == []


def test_features_that_trained_before_are_told_as_a_note(tmp_path: Path) -> None:
    found = findings(HEAD + MODELS + MEANT["a linear evaluation of trained features"], tmp_path)
    assert [each.severity for each in found if each.cause == "detached"] == ["note"]
