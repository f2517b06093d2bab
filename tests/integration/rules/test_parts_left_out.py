"""Models with more parts than a loss uses: what may be meant, and what is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.first, self.second = nn.Linear(16, 3), nn.Linear(16, 2)
        self.heads = nn.ModuleDict({"a": nn.Linear(16, 3), "b": nn.Linear(16, 3)})
    def forward(self, x, task="a"):
        h = self.body(x)
        FORWARD
net = Net()
optimizer = torch.optim.Adam([*net.body.parameters(), TRAINED], lr=0.01)
for step in range(6):
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
"""
BOTH = "*net.first.parameters(), *net.second.parameters()"
PAIR = NET.replace("TRAINED", BOTH).replace("FORWARD", "return self.first(h), self.second(h)")
LEFT = {
    "a result of a pair": PAIR + "    loss = F.cross_entropy(net(x)[0], y)",
    "a result of a dict": NET.replace("TRAINED", BOTH).replace(
        "FORWARD", "return {'main': self.first(h), 'other': self.second(h).sigmoid()}"
    )
    + "    out = net(x)\n    loss = F.cross_entropy(out['main'], y)",
    "a result that is called _": PAIR + "    main, _ = net(x)\n    loss = F.cross_entropy(main, y)",
    "a head that the task does not ask for": NET.replace("TRAINED", "*net.heads.parameters()").replace(
        "FORWARD", "return self.heads[task](h)"
    )
    + "    loss = F.cross_entropy(net(x, 'b'), y)",
}
FORGOTTEN = {
    "a result with a name": PAIR.replace("return self.first(h), self.second(h)", "return (self.first(h),\n"
    "            self.second(h))  # HERE") + "    main, other = net(x)\n    loss = F.cross_entropy(main, y)",
    "a result that forward loses": NET.replace("TRAINED", BOTH).replace(
        "FORWARD", "other = self.second(h)  # HERE\n        return {'main': self.first(h)}"
    )
    + "    out = net(x)\n    loss = F.cross_entropy(out['main'], y)",
    "a head with a fixed name": NET.replace("TRAINED", "*net.heads.parameters()")
    .replace("FORWARD", "return self.heads['a'](h)").replace("net = Net()", "net = Net()  # HERE")
    + "    loss = F.cross_entropy(net(x), y)",
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_a_model_may_have_more_heads_than_a_loss_uses(name: str, tmp_path: Path) -> None:
    found = findings(HEAD + LEFT[name] + TRAIN, tmp_path)
    assert [(each.cause, each.severity) for each in found] == [("unused_parameter", "note")]


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_a_program_forgets_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + FORGOTTEN[name] + TRAIN, "unused_parameter", tmp_path)


TOUCHED = PAIR + "    main, other = net(x)\n    loss = F.cross_entropy(main, y)"
ZEROS = (" + 0.0 * other.sum()", " + 0 * (main.sum() + other.mean())", " + sum(o.sum() for o in (main, other)) * 0.0")


@pytest.mark.parametrize("zero", ZEROS)
def test_outputs_may_be_touched_for_their_gradients(zero: str, tmp_path: Path) -> None:
    found = findings(HEAD + TOUCHED + zero + TRAIN, tmp_path)
    assert [(each.cause, each.severity) for each in found] == [("term_without_gradient", "note")]


def test_a_weight_of_zero_for_a_bare_sum_is_noted_once(tmp_path: Path) -> None:
    found = findings(HEAD + "weight = 0.0\n" + TOUCHED + " + weight * other.sum()" + TRAIN, tmp_path)
    assert [(each.cause, each.severity) for each in found] == [("term_without_gradient", "note")]


@pytest.mark.parametrize(
    "term", ["other.square().mean()", "other.norm()", "F.l1_loss(other, y[:, None].float() * x[:, :2])"]
)
def test_a_penalty_times_zero_is_told(term: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + TOUCHED + f" + 0.0 * {term}  # HERE" + TRAIN, "term_without_gradient", tmp_path)


RADIUS = (
    HEAD
    + """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
radius = torch.zeros(())
for step in range(6):
    d = net(torch.randn(20, 4)).norm(dim=1)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""
)


def test_a_radius_that_is_also_a_term_of_the_loss_is_left_alone(tmp_path: Path) -> None:
    loss, after = "radius**2 + (d.square() - radius**2).clamp(min=0).mean()", "radius = d.detach().quantile(0.9)"
    assert not alarms(RADIUS.format(loss=loss, after=after), tmp_path)


def test_a_penalty_that_is_detached_is_told_as_before(tmp_path: Path) -> None:
    script = RADIUS.format(loss="(d - 1).square().mean() + 0.1 * d.detach().mean()  # HERE", after="pass")
    assert_first_alarm(script, "term_without_gradient", tmp_path)


SCALES = (
    HEAD
    + """
WEIGHTS = {weights}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(6, 1) for _ in range(3))

    def forward(self, x):
        found = []
        for layer in self.body:
            x = torch.tanh(layer(x))
            found.append(x)
        return [head(each) for head, each in zip(self.heads, found)]

def error(outputs, y):
    total = 0.0
    for weight, out in zip(WEIGHTS, outputs):  # HERE
        total = total + weight * F.mse_loss(out, y)
    return total

net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(16, 6)
    y = x[:, :1]
    loss = error(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    x = torch.randn(16, 6)
    print(F.mse_loss(net(x)[-1], x[:, :1]).item())
"""
)


def test_an_output_that_is_scored_and_that_zip_leaves_out_of_the_loss_is_told(tmp_path: Path) -> None:
    assert_first_alarm(SCALES.format(weights=(0.3, 0.7)), "unused_parameter", tmp_path)
    assert not alarms(SCALES.format(weights=(0.1, 0.3, 0.6)), tmp_path)


DIVERGENCE = """
def kernel(a, b):
    return torch.exp(-torch.cdist(a, b).square()).mean()
generator, encoder = nn.Linear(3, 2), nn.Linear(2, 2)
optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
for step in range(4):
    x, y, other = generator(torch.randn(12, 3)), torch.randn(12, 2), torch.randn(12, 2)
    loss = {}
"""


@pytest.mark.parametrize(
    "symmetric",
    [
        "0.5 * kernel(x, x) + 0.5 * kernel(y, y) - kernel(x, y)",
        "0\n    a, b, c = kernel(x, x), kernel(y, y), kernel(x, y)\n    loss = (a - 1) / 3 + (b - 1) / 3 - c",
    ],
)
def test_the_part_of_a_symmetric_divergence_that_only_data_enter_is_right(symmetric: str, tmp_path: Path) -> None:
    assert alarms(HEAD + DIVERGENCE.format(symmetric) + TRAIN, tmp_path) == []


def test_a_part_of_a_loss_that_only_other_data_enter_is_told(tmp_path: Path) -> None:
    forgotten = "0.5 * kernel(x, x) - kernel(x, y) - 0.2 * kernel(other, y)  # HERE"
    assert_first_alarm(HEAD + DIVERGENCE.format(forgotten) + TRAIN, "term_without_gradient", tmp_path)


TWO_ANSWERS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.label = nn.Linear(6, 16), nn.Linear(16, 3)
        self.domain = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, x):
        h = self.body(x).relu()
        return self.label(h), self.domain(h).squeeze(1)  # HERE
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    loss = F.cross_entropy(net(x)[0], y)
"""
SCORED = """
with torch.no_grad():
    print({})
"""


def test_an_answer_that_is_left_in_the_evaluation_too_is_a_note(tmp_path: Path) -> None:
    script = HEAD + TWO_ANSWERS + TRAIN + SCORED.format("net(x)[0].argmax(1)")
    assert [each.severity for each in findings(script, tmp_path) if each.cause == "unused_parameter"] == ["note"]


def test_an_answer_that_only_the_evaluation_uses_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + TWO_ANSWERS + TRAIN + SCORED.format("net(x)[1].sigmoid()"), "unused_parameter", tmp_path)


STATES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(4) for _ in range(3)])
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        states = []
        for layer, norm in zip(self.layers, self.norms):
            states.append(x)  # HERE
            x = x + torch.relu(norm(layer(x)))
        return self.head(torch.cat(states, 1))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = (net(torch.randn(8, 4)) - 1).square().mean()
"""


def test_a_list_of_what_layers_take_is_told_where_it_is_kept(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + STATES + TRAIN, "unused_parameter", tmp_path)
    behind = STATES.replace("            states.append(x)  # HERE\n", "")
    behind = behind.replace("norm(layer(x)))", "norm(layer(x)))\n            states.append(x)")
    assert not alarms(HEAD + behind + TRAIN, tmp_path)
    last = STATES.replace("range(3)", "range(2)").replace("cat(states, 1)", "cat([*states, x], 1)")
    assert not alarms(HEAD + last + TRAIN, tmp_path)


TERMS = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def overlap(p):
    return (p[:8] * p[8:]).sum(-1).mean()
for step in range(6):
    p = net(torch.randn(16, 4)).softmax(-1)
    clash = overlap(p)
    entropy = -(p * p.log()).sum(-1).mean()
    LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(clash.item())
"""


def test_a_term_that_the_loss_was_before_it_is_assigned_again_is_told(tmp_path: Path) -> None:
    lost = "loss = clash\n    loss = 0.05 * entropy  # HERE"
    assert_first_alarm(HEAD + TERMS.replace("LOSS", lost), "unused_parameter", tmp_path)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = clash\n    loss = loss + 0.05 * entropy",
        "loss = clash\n    loss += 0.05 * entropy",
        "loss = clash\n    if step > 2:\n        loss = 0.05 * entropy",
        "loss = clash\n    best = loss.item()\n    loss = 0.05 * entropy + clash",
        "loss = clash\n    loss = 0.05 * entropy + clash",
    ],
)
def test_a_loss_that_is_read_before_it_is_assigned_again_is_right(loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + TERMS.replace("LOSS", loss), tmp_path)


DEEP = """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleList([nn.Linear(4, 1) for _ in range(3)])
    def forward(self, x):
        states = []
        for layer in self.body:
            x = torch.tanh(layer(x))
            states.append(x)
        return [head(state) for head, state in zip(self.heads, states)]
net = Deep()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 4)
    loss = 0.0
    for y, weight in zip(net(x), WEIGHTS):  # HERE
        loss = loss + weight * (y - x[:, :1]).square().mean()
"""


def test_results_that_zip_leaves_out_are_told_at_its_line(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DEEP.replace("WEIGHTS", "(0.25, 0.5)") + TRAIN, "unused_parameter", tmp_path)
    assert not alarms(HEAD + DEEP.replace("WEIGHTS", "(0.25, 0.5, 1.0)") + TRAIN, tmp_path)
