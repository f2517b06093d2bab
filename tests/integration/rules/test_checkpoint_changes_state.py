"""State that a checkpointed function reads and changes: its second run, in backward, reads another value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

IMPORT = f"{HEAD}import random\nfrom torch.utils.checkpoint import checkpoint\n"
CELL = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.state = None
    def forward(self, x):
{body}
model, head = Cell(), nn.Linear(4, 1)
"""
STEPS = """
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for step in range(5):
    x = torch.randn(6, 4, requires_grad=True)
    {before}
    h = checkpoint(model, x, use_reentrant={reentrant})
    loss = (head(h) - x.detach().sum(1, keepdim=True)).square().mean()
    {after}
"""
CARRIED = """
        if self.state is None:
            self.state = torch.zeros(6, 4)
        h = torch.tanh(self.a(x) + self.b(self.state))
        self.state = h.detach()  # HERE
        return h
"""
GROWS = """
        context = x if self.state is None else torch.cat([self.state, x])
        self.state = x.detach()  # HERE
        return torch.tanh(self.a(context))[-6:]
"""
SUBTRACTED = """
        h = self.a(x)
        center = torch.zeros(4) if self.state is None else self.state
        h = torch.tanh(h - self.state) if self.state is not None else torch.tanh(h)
        self.state = 0.9 * center + 0.1 * h.mean(0).detach()  # HERE
        return h
"""
IN_HELPER = """
        return self.keep(torch.tanh(self.a(x) + self.recall(x)))
    def recall(self, x):
        return self.b(torch.zeros(6, 4) if self.state is None else self.state)
    def keep(self, h):
        new = h.detach()
        self.state = new  # HERE
        return h
"""
IN_PLACE = """
        self.state = torch.zeros(4) if self.state is None else self.state
        h = torch.tanh(self.a(x) - self.state)
        with torch.no_grad():
            self.state.mul_(0.9).add_(h.mean(0), alpha=0.1)  # HERE
        return h
"""


def training(body: str, *, reentrant: bool = False, before: str = "pass", after: str = TRAIN.strip()) -> str:
    return IMPORT + CELL.format(body=body) + STEPS.format(reentrant=reentrant, before=before, after=after)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("body", [CARRIED, GROWS, SUBTRACTED, IN_HELPER, IN_PLACE])
def test_state_that_is_read_and_then_changed_is_told_at_the_line_of_its_new_value(
    body: str, reentrant: bool, tmp_path: Path
) -> None:
    assert_first_alarm(training(body, reentrant=reentrant), "checkpoint_changes_state", tmp_path)


def test_state_that_is_cleared_before_each_forward_is_still_another_one_in_backward(tmp_path: Path) -> None:
    script = training(CARRIED, before="model.state = None")
    assert_first_alarm(script, "checkpoint_changes_state", tmp_path)


def test_the_error_of_torch_is_told_once_with_the_state(tmp_path: Path) -> None:
    (found,) = alarms(training(GROWS), tmp_path)
    assert found.symptom == "raises"
    assert "reads self.state at line 17 and changes it at line 18" in found.message
    assert found.symptom_location is not None


def test_a_list_of_a_model_whose_lambda_is_checkpointed(tmp_path: Path) -> None:
    script = f"""{IMPORT}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.memory = [torch.zeros(6, 4) for _ in range(2)]
        self.head = nn.Linear(4, 1)
    def layer(self, i, x):
        h = torch.tanh(self.layers[i](x + self.memory[i]))
        self.memory[i] = 0.5 * self.memory[i] + 0.5 * h.detach()  # HERE
        return h
    def forward(self, x):
        for i in range(2):
            x = checkpoint(lambda y, i=i: self.layer(i, y), x, use_reentrant=False)
        return self.head(x)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(6, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    {TRAIN.strip()}
"""
    assert_first_alarm(script, "checkpoint_changes_state", tmp_path)


KEPT_ONCE = """
        if self.state is None:
            self.state = self.a.weight.softmax(-1).sqrt()  # HERE
        return torch.tanh(self.b(x) @ self.state)
"""
GROWING_LIST = """
layer, runs = nn.Linear(3, 3), []
def block(x):
    runs.append(x)  # HERE
    return layer(x).tanh() if len(runs) == 1 else layer(x)
checkpoint(block, torch.randn(4, 3), use_reentrant=False).sum().backward()
"""
OTHER_CAUSE = """
layer = nn.Linear(3, 3)
random.seed(1)
def block(x):
    h = layer(x)
    return h.tanh() if random.random() < 0.5 else h
for step in range(8):
    h = checkpoint(block, torch.randn(4, 3), use_reentrant=False)  # HERE
    h.sum().backward()
"""


@pytest.mark.parametrize("program", [training(KEPT_ONCE), IMPORT + GROWING_LIST, IMPORT + OTHER_CAUSE])
def test_where_torch_saw_other_tensors_it_tells_what_is_kept_else_the_checkpoint(program: str, tmp_path: Path) -> None:
    assert_first_alarm(program, "checkpoint_changes_state", tmp_path)
    assert len(alarms(program, tmp_path)) == 1


ONLY_WRITTEN = """
        h = self.a(x).softmax(-1)
        self.state = h.detach()
        self.calls = getattr(self, "calls", 0) + 1
        return torch.tanh(self.b(h))
"""
STATISTICS = """
        mean = x.mean(0)
        self.state = torch.zeros(4) if self.state is None else self.state
        if self.training:
            self.state = 0.9 * self.state + 0.1 * mean.detach()
        else:
            mean = self.state
        return torch.tanh(self.b(self.a(x - mean)))
"""
SET_FIRST = """
        self.state = torch.zeros(6, 4)
        for _ in range(2):
            self.state = torch.tanh(self.a(x) + self.b(self.state))
        return self.state
"""
MASK_ONCE = """
        if self.state is None or len(self.state) != len(x):
            self.state = torch.ones(len(x), 4)
        return torch.tanh(self.b(self.a(x) * self.state))
"""
POWER_ITERATION = """
        if self.state is None:
            self.state = torch.ones(4)
        with torch.no_grad():
            v = F.normalize(self.a.weight.t() @ self.state, dim=0)
            self.state = F.normalize(self.a.weight @ v, dim=0)
        scale = self.state @ self.a.weight @ v
        return torch.tanh(self.b(self.a(x) / scale))
"""
IN_EVALUATION = """
        if not self.training:
            x = x if self.state is None else x + self.state
            self.state = x.detach()
        return torch.tanh(self.b(self.a(x)))
"""


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("body", [ONLY_WRITTEN, STATISTICS, SET_FIRST, MASK_ONCE, POWER_ITERATION, IN_EVALUATION])
def test_state_that_does_not_change_what_the_second_run_computes(body: str, reentrant: bool, tmp_path: Path) -> None:
    evaluation = "\nmodel.eval()\nwith torch.no_grad():\n    for _ in range(3):\n        print(checkpoint(model, x))\n"
    script = training(body, reentrant=reentrant)
    script += evaluation.replace("(model, x)", f"(model, x, use_reentrant={reentrant})")
    assert [each for each in alarms(script, tmp_path) if each.code == "GV977"] == []


def test_state_that_is_put_back_or_stored_outside(tmp_path: Path) -> None:
    put_back = f"new, model.state = model.state, old\n    {TRAIN.strip()}\n    model.state = new"
    assert alarms(training(CARRIED, before="old = model.state", after=put_back), tmp_path) == []
    stored = CARRIED.replace("        self.state = h", "        self.new = h")
    assert alarms(training(stored, after=f"{TRAIN.strip()}\n    model.state = model.new"), tmp_path) == []


COUNTED = """
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.seen = nn.Linear(4, 4), 0
    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        self.seen += 1  # HERE
        if self.seen <= 3:
            return shares
        best = shares.topk(2, dim=-1)
        return torch.zeros_like(shares).scatter(-1, best.indices, best.values)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = Router(), nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
    def forward(self, x):
        shares = self.router(x)
        return sum(each(x) * shares[:, number, None] for number, each in enumerate(self.experts))
model, head = Block(), nn.Linear(4, 1)
"""


def test_a_counter_of_a_layer_beside_the_one_that_failed_is_told(tmp_path: Path) -> None:
    assert_first_alarm(
        IMPORT + COUNTED + STEPS.format(before="", after="", reentrant=False) + TRAIN,
        "checkpoint_changes_state",
        tmp_path,
    )
