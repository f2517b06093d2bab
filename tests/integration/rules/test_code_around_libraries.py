"""What libraries around torch do: adapters in a frozen model, new heads, loaders, and optimizers inside of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradviz.analysis.check.checker import check_case
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.analysis.rules import RULES
from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, findings, recorded

PARTS = """
class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Parameter(0.1 * torch.randn(8, 2)), nn.Parameter(torch.zeros(2, 8))
    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential({body}).requires_grad_(False)
        {rest}
def main():
    net = Net()
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
    for step in range(4):
        net.train()
        x = torch.randn(6, 7)
        loss = F.cross_entropy(net(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""
ADAPTED = PARTS.format(
    body="nn.Linear(7, 8), nn.LayerNorm(8), nn.Dropout(0.1)",
    rest="self.a, self.drop, self.b = Adapted(nn.Linear(8, 8)), nn.Dropout(0.1), nn.Linear(8, 2)\n"
    "    def forward(self, x):\n        return self.b(self.drop(self.a(self.body(x)).relu()))",
)
NEW_HEAD = PARTS.format(
    body="nn.Linear(7, 8), nn.BatchNorm1d(8), nn.ReLU()",
    rest="self.head = nn.Linear(8, 2)\n    def forward(self, x):\n        return self.head(self.body(x))",
)
LOADED = """
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(64, 12)
model = nn.Linear(12, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    for a, b in DataLoader(TensorDataset(x, x[:, :3].sum(1, keepdim=True)), batch_size=8, shuffle=True):
        loss = F.mse_loss(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ACCUMULATED = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}
for i in range(12):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x)[:, 0], x[:, 0]){divided}
    {backward}
    {later}
    {step}
"""
EVERY_THIRD = "if i % 3 == 2:\n        optimizer.step()\n        optimizer.zero_grad()"
INSIDE = """
class Library:
    def backward(self, loss):
        (loss / 3).backward()
        self.count = getattr(self, "count", 0) + 1
    def step(self):
        if self.count % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
library = Library()
"""
DIVIDED_TWICE = {
    "before a function that divides": ("", " / 3  # HERE", "(loss * (1 / 3)).backward()", "", EVERY_THIRD),
    "the gradients as well": (
        "", " / 3  # HERE", "loss.backward()",
        "if i % 3 == 2:\n        for p in model.parameters():\n            p.grad.div_(3)", EVERY_THIRD,
    ),
    "in functions that decide when to step": (INSIDE, " / 3  # HERE", "library.backward(loss)", "", "library.step()"),
}  # fmt: skip
DIVIDED_ONCE = {
    "by the program": ("", "", "(loss / 3).backward()", "", EVERY_THIRD),
    "by a function": (INSIDE, "", "library.backward(loss)", "", "library.step()"),
    "the gradients": (
        "", "", "loss.backward()",
        "if i % 3 == 2:\n        for p in model.parameters():\n            p.grad.div_(3)", EVERY_THIRD,
    ),
    "a mean of three terms": (
        "", "", "loss = (loss + loss.square() + model.weight.square().mean()) / 3\n    (loss / 3).backward()", "",
        EVERY_THIRD,
    ),
    "a weight that is another number": ("", " * 0.5", "(loss / 3).backward()", "", EVERY_THIRD),
}  # fmt: skip
HELD_INSIDE = """
class Trainer:
    def fit(self):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for step in range(4):
            self.net(torch.randn(8, 4)).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
Trainer().fit()
"""
LANGUAGE_MODEL = """
embed, mix, head = nn.Embedding(30, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 30)
optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters(), *head.parameters()], lr=0.01)
def loss_of(logits, labels):
    labels = F.pad(labels, (0, 1), value=-100)[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
for step in range(3):
    tokens = torch.randint(0, 30, (6, 9))
    {given}
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SHIFTED = (
    "inputs, labels = tokens[:, :-1], tokens[:, 1:]  # HERE",
    "loss = loss_of(head(mix(embed(inputs))[0]), labels)",
)
SHIFTED_AND_PADDED = (
    "texts = [torch.randint(1, 30, (int(n),)) for n in torch.randint(6, 12, (6,))]\n"
    "    pairs = [(text[:-1], text[1:]) for text in texts]  # HERE\n"
    "    inputs = nn.utils.rnn.pad_sequence([each for each, _ in pairs], batch_first=True)\n"
    "    labels = nn.utils.rnn.pad_sequence([each for _, each in pairs], batch_first=True, padding_value=-100)"
)
SHIFTED_INTO = (
    "inputs, labels = tokens, torch.full_like(tokens, -100)\n"
    "    labels[:, :-1] = tokens[:, 1:]  # HERE\n"
    "    labels[labels == 7] = -100"
)
SHIFTED_ONCE = {
    "into another tensor": (SHIFTED_INTO, "loss = F.cross_entropy(head(mix(embed(inputs))[0]).mT, labels)"),
    "before it is padded": (SHIFTED_AND_PADDED, "loss = F.cross_entropy(head(mix(embed(inputs))[0]).mT, labels)"),
    "in the loss": ("", "loss = loss_of(head(mix(embed(tokens))[0]), tokens)"),
    "by the program": (SHIFTED[0], "loss = F.cross_entropy(head(mix(embed(inputs))[0]).mT, labels)"),
    "a head for each of the next two tokens": (
        SHIFTED[0],
        "h = head(mix(embed(inputs))[0])\n    loss = loss_of(h, labels)\n"
        "    loss = loss + F.cross_entropy(h.flatten(0, 1), labels.flatten())",
    ),
    "by two positions at once": (
        "", "h = head(mix(embed(tokens[:, :-2]))[0])\n    loss = F.cross_entropy(h.mT, tokens[:, 2:])",
    ),
}  # fmt: skip
PADDED = """
def collate(texts):
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    for place, text in enumerate(texts):
        ids[place, : len(text)] = text
    return ids
"""
PADDED_LABELS = ("tokens = collate([torch.randint(1, 30, (int(n),)) for n in torch.randint(3, 10, (8,))])", "pad = 0")
HOLD = """
def hold(module):
    if isinstance(module, nn.BatchNorm1d):
        module.eval()
"""
FINE_TUNED = """{hold}
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    net.train()
    {apply}
    loss = net(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
RIGHT = {
    "skip connections of which the last is what arrives": """
class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.up = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x).tanh()
            kept.append(x)
        for layer in self.up:
            x = layer(x + kept.pop()).tanh()
        return x
net = Skips()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = (net(torch.randn(8, 4)) - 0.3).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a rate that is set for each update of several batches": """
net, batch_size, num_steps, total_timesteps = nn.Linear(2, 1), 16, 16, 96
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
num_updates = total_timesteps // batch_size
for update in range(1, num_updates + 1):
    frac = 1.0 - (update - 1.0) / num_updates
    optimizer.param_groups[0]["lr"] = frac * 0.1
    seen = []
    for step in range(0, num_steps):
        seen.append(torch.randn(2))
    batch = torch.stack(seen)
    for start in range(0, batch_size, 4):
        loss = (net(batch[start : start + 4]) - 0.3).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a scaled gradient, also where gradients are off": """
size, net = nn.Parameter(torch.tensor([0.3, 0.2])), nn.Linear(2, 1)
optimizer = torch.optim.SGD([size, *net.parameters()], lr=0.1)
def scaled(x):
    return x.detach() + 0.1 * (x - x.detach())
for step in range(4):
    x = torch.randn(8, 2)
    loss = (net(x / scaled(size)) - 0.3).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        print((net(x / scaled(size)) - 0.3).square().mean())
""",
}
NOT_TOLD = {
    "copies with a history, as meta learning puts in the place of parameters": """
base = nn.Linear(4, 1)
optimizer = torch.optim.Adam(base.parameters(), lr=0.01)
for step in range(4):
    learner = copy.deepcopy(base)
    for name, p in base.named_parameters():
        learner._parameters[name] = p.clone()
    x = torch.randn(8, 4)
    inner = (learner(x)[:, 0] - x[:, 0]).square().mean()
    grads = torch.autograd.grad(inner, list(learner.parameters()), create_graph=True)
    for (name, p), g in zip(list(learner.named_parameters()), grads):
        p.grad = g
        learner._parameters[name] = p - 0.1 * p.grad
    optimizer.zero_grad()
    (learner(x)[:, 0] - x[:, 0]).square().mean().backward()
    optimizer.step()
""",
    "gradients that are divided by another name": """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    x = torch.randn(8, 4)
    F.mse_loss(net(x)[:, 0], x[:, 0]).backward()
    if step % 3 == 2:
        for p in net.parameters():
            p.grad.data.mul_(1.0 / 3)
        optimizer.step()
        optimizer.zero_grad()
""",
    "a question whether a buffer has a gradient": """
def exists(value):
    return value is not None
class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(2))
    def forward(self, x):
        y = self.layer(x)
        new = self.mean.lerp(y.detach().mean(0), 0.1)
        if exists(self.mean.grad):
            self.mean.grad = None
        self.mean.copy_(new)
        return y - self.mean
net = Averaged()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = (net(torch.randn(8, 4)) - 0.3).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a difference of which only the mean is taken": """
actor, critic = nn.Linear(4, 1), nn.Linear(4, 1).requires_grad_(False)
optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    a = actor(x)
    value = critic(x + a).view(-1)
    loss = (0.2 * a.square() - value).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "ends of episodes that a block reads whose runs are not all recorded": """
from typing import NamedTuple
class Batch(NamedTuple):
    states: torch.Tensor
    rewards: torch.Tensor
    following: torch.Tensor
    dones: torch.Tensor
net, target = (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def sample():
    return Batch(torch.randn(8, 4), torch.rand(8), torch.randn(8, 4), (torch.rand(8) < 0.5).float())
def wanted_of(data):
    with torch.no_grad():
        return data.rewards + 0.9 * (1 - data.dones) * target(data.following)[:, 0]
for _ in range(5):
    wanted_of(sample())
for step in range(300):
    data = sample()
    wanted = wanted_of(data)
    loss = F.mse_loss(net(data.states)[:, 0], wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for p, q in zip(net.parameters(), target.parameters()):
        q.data.copy_(0.05 * p.data + 0.95 * q.data)
""",
    "a part of the gradient of a parameter": """
scale, net = nn.Parameter(torch.rand(4) + 0.5), nn.Linear(4, 1)
optimizer = torch.optim.SGD([scale, *net.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    part = 0.1 * scale + 0.9 * scale.detach()
    loss = (net(x * part)[:, 0] - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
}
WRAPPED = """
class Passing(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner
    @property
    def param_groups(self):
        return self.inner.param_groups
    @property
    def state(self):
        return self.inner.state
    @property
    def defaults(self):
        return self.inner.defaults
    def step(self, closure=None):
        self.inner.step(closure)
    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)
model = nn.Linear(4, 1)
optimizer = Passing(torch.optim.SGD(model.parameters(), lr=0.1))
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
for step in range(5):
    x = torch.randn(8, 4)
    loss = (model(x)[:, 0] - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
"""


def test_dropout_in_frozen_layers_of_an_adapted_model_is_right(tmp_path: Path) -> None:
    assert alarms(HEAD + ADAPTED, tmp_path) == []


def test_statistics_of_a_frozen_body_are_told_by_the_name_that_it_had_in_a_function(tmp_path: Path) -> None:
    (found,) = alarms(HEAD + NEW_HEAD, tmp_path)
    assert found.cause == "training_mode"
    assert found.message.startswith("net.body computes features")
    assert "net.body.eval()" in (found.fix or "")


def test_data_that_no_call_is_known_to_have_made_stops_no_rule(tmp_path: Path) -> None:
    assert [each.message for each in findings(HEAD + LOADED, tmp_path)] == []


def test_an_optimizer_that_passes_on_the_groups_of_another_is_that_other_one(tmp_path: Path) -> None:
    case = recorded(HEAD + WRAPPED, tmp_path)
    assert check_case(case, RULES).findings == ()
    assert [each.class_name for each in case.dataflow.log.optimizers] == ["SGD"]


def _accumulated(made: str, divided: str, backward: str, later: str, step: str) -> str:
    return HEAD + ACCUMULATED.format(made=made, divided=divided, backward=backward, later=later, step=step)


@pytest.mark.parametrize("case", DIVIDED_TWICE)
def test_a_loss_that_is_divided_twice_by_the_number_of_batches_is_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(_accumulated(*DIVIDED_TWICE[case]), "accumulation_divided_twice", tmp_path)


@pytest.mark.parametrize("case", DIVIDED_ONCE)
def test_a_loss_that_is_divided_once_is_left_alone(case: str, tmp_path: Path) -> None:
    assert alarms(_accumulated(*DIVIDED_ONCE[case]), tmp_path) == []


@pytest.mark.parametrize("given", [SHIFTED[0], SHIFTED_AND_PADDED, SHIFTED_INTO])
def test_labels_that_the_loss_shifts_once_more_are_told(given: str, tmp_path: Path) -> None:
    script = HEAD + LANGUAGE_MODEL.format(given=given, loss=SHIFTED[1])
    assert_first_alarm(script, "targets_shifted_twice", tmp_path)


@pytest.mark.parametrize("case", SHIFTED_ONCE)
def test_labels_that_are_shifted_once_are_left_alone(case: str, tmp_path: Path) -> None:
    given, loss = SHIFTED_ONCE[case]
    assert alarms(HEAD + LANGUAGE_MODEL.format(given=given, loss=loss), tmp_path) == []


def test_padding_beside_labels_that_do_not_count_is_told(tmp_path: Path) -> None:
    loss = "loss = loss_of(head(mix(embed(tokens))[0]), {labels})"
    script = HEAD + PADDED + LANGUAGE_MODEL.format(given="\n    ".join(PADDED_LABELS), loss=loss)
    found = [each.cause for each in alarms(script.format(labels="tokens"), tmp_path)]
    assert found == ["padding_in_loss"]
    assert alarms(script.format(labels="tokens.masked_fill(tokens == pad, -100)"), tmp_path) == []


def test_a_module_that_only_a_function_held_is_named_by_its_variable_and_not_by_its_class(tmp_path: Path) -> None:
    log = recorded(HEAD + HELD_INSIDE, tmp_path).dataflow.log
    assert {name_of(each) for each in log.tensors if each.role == "parameter"} == {"self.net.weight", "self.net.bias"}


@pytest.mark.parametrize(("apply", "causes"), [("net.apply(hold)", []), ("net.eval()", ["evaluation_mode"])])
def test_batch_normalizations_that_are_held_by_their_class_are_right(
    apply: str, causes: list[str], tmp_path: Path
) -> None:
    script = HEAD + FINE_TUNED.format(apply=apply, hold="" if apply == "net.eval()" else HOLD)
    assert [each.cause for each in alarms(script, tmp_path)] == causes


@pytest.mark.parametrize("case", NOT_TOLD)
def test_code_of_public_programs_is_not_told(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + NOT_TOLD[case], tmp_path) == []


@pytest.mark.parametrize("case", RIGHT)
def test_code_that_looks_like_a_mistake_of_names_or_counts_is_right(case: str, tmp_path: Path) -> None:
    found = {each.cause for each in alarms(HEAD + RIGHT[case], tmp_path)}
    assert found.isdisjoint({"added_to_itself", "difference_with_itself", "schedule_counts_batches"})


ENCODER = """
import torch
class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.pooler = torch.nn.Linear(4, 8), torch.nn.Linear(8, 8)
    def forward(self, x):
        h = self.words(x).relu()
        return h, {pooled}
"""
POOLED = """
import sys
sys.path.insert(0, {folder!r})
{encoder}
model, head = Encoder(), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(8, 5, 4)
    h, pooled = model(x)
    loss = F.cross_entropy(head(h.mean(1)), (x[:, 0, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("is_of_library", "severity"), [(True, "note"), (False, "warning")])
@pytest.mark.parametrize(
    ("pooled", "cause"),
    [
        ("self.pooler(h[:, 0]).tanh()", "unused_parameter"),
        # What becomes of the numbers cannot be known.
        ("self.pooler(h[:, 0]).tanh().tolist()", "step_without_effect"),
    ],
)
def test_what_only_a_library_computes_and_no_loss_uses_is_a_note(
    pooled: str, cause: str, is_of_library: bool, severity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    source = ENCODER.format(pooled=pooled)
    (library / "encoders.py").write_text(source)
    monkeypatch.delitem(sys.modules, "encoders", raising=False)
    encoder = "from encoders import Encoder" if is_of_library else source
    found = findings(HEAD + POOLED.format(folder=str(library), encoder=encoder), tmp_path)
    assert [(each.cause, each.severity) for each in found] == [(cause, severity)]
    assert found[0].tensors == ("model.pooler.weight", "model.pooler.bias")
