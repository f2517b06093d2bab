"""States that fit no key, attributes that freeze nothing, schedules that nobody steps, one layer at many places, and
updates that are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 1)
    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
old, model = Net(), Net()
state = old.state_dict()
"""
LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.mse_loss(model(inputs), targets)
"""
NOT_LOADED = (
    "model.load_state_dict({'model.' + key: value for key, value in state.items()}, strict=False)  # HERE",
    "model.load_state_dict({'net': state, 'epoch': 3}, strict=False)  # HERE",
    "model.load_state_dict(state_dict={}, strict=False)  # HERE",
    "def restore(net, found):\n    return net.load_state_dict(found, False)  # HERE\n"
    "restore(model, old.body.state_dict())",
)
LOADED = (
    "model.load_state_dict({key: value for key, value in state.items() if 'head' not in key}, strict=False)",
    "model.load_state_dict({**state, 'epoch': torch.tensor(3)}, strict=False)",
    "model.load_state_dict({'head.bias': state['head.bias']}, strict=False)",
    "model.load_state_dict({'module.' + key: value for key, value in state.items()}, strict=False)\n"
    "model.load_state_dict(state, strict=False)",
)


@pytest.mark.parametrize("load", NOT_LOADED)
def test_a_state_whose_keys_are_others_is_told(load: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + NET + load + LOOP + TRAIN, "nothing_loaded", tmp_path)


@pytest.mark.parametrize("load", LOADED)
def test_a_state_that_fits_in_part_is_right(load: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + NET + load + LOOP + TRAIN, tmp_path)


FREEZES_NOTHING = (
    "model.body.requires_grad = False  # HERE",
    "for p in model.body.parameters():\n    p.requires_gradient = False  # HERE",
    "for module in model.body:\n    setattr(module, 'requires_grad', False)  # HERE",
    "for p in model.body.parameters():\n    p.requires_grad_ = False  # HERE",
    "model.body.trainable = False  # HERE",
    "def configure(module, **flags):\n    for p in module.parameters():\n        for flag, value in flags.items():\n"
    "            setattr(p, flag, value)\nconfigure(model.body, trainable=False)  # HERE",
)
FREEZES = (
    "model.body.requires_grad_(False)",
    "for p in model.body.parameters():\n    p.require_grad = False\n    p.requires_grad = False",
    "class Body(nn.Sequential):\n    def __init__(self, *layers):\n        super().__init__(*layers)\n"
    "        self.requires_grad = False\nmodel.body = Body(*model.body)",
    "for p in model.body.parameters():\n    p.require_decay = False",
    "model.body.trainable = False\nfor part in model.children():\n"
    "    part.requires_grad_(getattr(part, 'trainable', True))",
)


@pytest.mark.parametrize("freeze", FREEZES_NOTHING)
def test_an_attribute_that_torch_does_not_know_freezes_nothing(freeze: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + NET + freeze + LOOP + TRAIN, "attribute_without_effect", tmp_path)


@pytest.mark.parametrize("freeze", FREEZES)
def test_attributes_that_freeze_and_those_of_the_program_are_right(freeze: str, tmp_path: Path) -> None:
    found = alarms(HEAD + NET + freeze + LOOP + TRAIN, tmp_path)
    assert "attribute_without_effect" not in [each.cause for each in found]


SCHEDULED = """
inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}
for step in range(6):
    loss = F.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {stepped}
"""
RATES = "torch.optim.lr_scheduler"
UNSTEPPED = (
    (f"schedule = {RATES}.ExponentialLR(optimizer, 0.9)  # HERE", ""),
    (f"plateau = {RATES}.ReduceLROnPlateau(optimizer)  # HERE", ""),
    (f"def make(o):\n    return {RATES}.LambdaLR(o, lambda n: 1 / (n + 1))  # HERE\nrule = make(optimizer)", ""),
    (
        "import warnings\nwarnings.simplefilter('ignore')\n"  # torch warns of it, which is an error in these tests
        f"other = torch.optim.SGD(model.parameters(), lr=0.1)\nschedule = {RATES}.StepLR(other, 2)  # HERE",
        "schedule.step()",
    ),
)
STEPPED = (
    (f"schedule = {RATES}.ExponentialLR(optimizer, 0.9)", "schedule.step()"),
    (f"plateau = {RATES}.ReduceLROnPlateau(optimizer)", "plateau.step(loss.item())"),
    (f"schedule = {RATES}.StepLR(optimizer, 2)", "schedule.step() if step == 99 else None"),
    (
        f"inner = [{RATES}.ConstantLR(optimizer), {RATES}.ExponentialLR(optimizer, 0.9)]\n"
        f"joined = {RATES}.SequentialLR(optimizer, inner, [50])",
        "joined.step()",
    ),
)


@pytest.mark.parametrize(("made", "stepped"), UNSTEPPED)
def test_a_schedule_that_changes_no_learning_rate_is_told(made: str, stepped: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SCHEDULED.format(made=made, stepped=stepped), "schedule_without_effect", tmp_path)


@pytest.mark.parametrize(("made", "stepped"), STEPPED)
def test_a_schedule_that_moves_or_waits_is_right(made: str, stepped: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + SCHEDULED.format(made=made, stepped=stepped), tmp_path)


REPLACED = """
body, head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1)
parameters = [*body.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for step in range(16):
    if step == 6:
        body.requires_grad_()
        {unfrozen}
    loss = head(body(torch.randn(8, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
"""


def test_a_schedule_that_goes_on_with_an_optimizer_that_was_replaced_is_told(tmp_path: Path) -> None:
    script = REPLACED.format(unfrozen="optimizer = torch.optim.SGD(parameters, lr=0.1)  # HERE")
    assert_first_alarm(HEAD + script, "schedule_without_effect", tmp_path)


def test_a_schedule_of_an_optimizer_of_a_model_that_was_replaced_is_told(tmp_path: Path) -> None:
    script = (
        HEAD + "def made(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n\n"
        "model = nn.Linear(4, 1)\noptimizer = made(model)\n"
        "schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"
        "for step in range(16):\n    if step == 6:\n        model = nn.Linear(4, 1)\n{}"
        "    optimizer.zero_grad()\n    model(torch.randn(8, 4)).square().mean().backward()\n"
        "    optimizer.step()\n    schedule.step()\n"
    )
    again = "        optimizer = made(model)  # HERE\n"
    assert_first_alarm(script.format(again), "schedule_without_effect", tmp_path)
    again += "        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"
    assert not alarms(script.format(again), tmp_path)


def test_a_schedule_of_an_optimizer_that_gets_more_parameters_is_right(tmp_path: Path) -> None:
    script = REPLACED.format(unfrozen="optimizer.add_param_group(dict(params=list(body.parameters())))")
    assert not alarms(HEAD + script, tmp_path)


LAYERS = """
inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
{layers}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.mse_loss(model(inputs), targets)
"""
OF_DICT = "model = nn.Sequential(*layers.values(), nn.Linear(4, 1))"
FAR = "\n".join(f"n{number} = {number}" for number in range(9)) + "\n"
ONE_LAYER = (
    "block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())\nmodel = nn.Sequential(*([block] * 3), nn.Linear(4, 1))  # HERE",
    """
class Stack(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = nn.ModuleList([layer for _ in range(n)])  # HERE
        self.last = nn.Linear(4, 1)
    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.last(x)
model = Stack(nn.Linear(4, 4), 3)
""",
    "names = ['a', 'b', 'c']\nlayers = nn.ModuleDict(dict.fromkeys(names, nn.Linear(4, 4)))  # HERE\n" + OF_DICT,
    "block = nn.Linear(4, 4)\nlayers = nn.ModuleDict({name: block for name in 'abc'})  # HERE\n" + OF_DICT,
    "from itertools import repeat\nmodel = nn.Sequential(*repeat(nn.Linear(4, 4), 3), nn.Linear(4, 1))  # HERE",
    "def blocks(n):\n    block, found = nn.Linear(4, 4), []\n    for _ in range(n):\n"
    "        found.append(block)  # HERE\n    return found\n"
    + FAR
    + "model = nn.Sequential(*blocks(3), nn.Linear(4, 1))",
    """
class Stack(nn.Module):
    def __init__(self, n):
        super().__init__()
        block, self.n = nn.Linear(4, 4), n
        for i in range(n):
            setattr(self, f"layer{i}", block)  # HERE
        self.last = nn.Linear(4, 1)
    def forward(self, x):
        for i in range(self.n):
            x = torch.tanh(getattr(self, f"layer{i}")(x))
        return self.last(x)
model = Stack(3)
""",
)
OWN_LAYERS = (
    "model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)], nn.Tanh(), nn.Linear(4, 1))",
    "act = nn.ReLU()\nmodel = nn.Sequential(nn.Linear(4, 4), act, nn.Linear(4, 4), act, nn.Linear(4, 1))",
    "class Loop(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.cell, self.last = nn.Linear(4, 4), nn.Linear(4, 1)\n        self.same = self.cell\n"
    "    def forward(self, x):\n        for _ in range(3):\n            x = torch.tanh(self.cell(x))\n"
    "        return self.last(self.same(x))\nmodel = Loop()",
    "cell = nn.Linear(4, 4)\nmodel = nn.Sequential(cell, nn.Tanh(), cell, nn.Tanh(), nn.Linear(4, 1))",
    "shared = nn.Linear(4, 4)\nmodel = nn.Sequential(*[shared] * 3, nn.Linear(4, 1))",
    "class Albert(nn.Sequential):\n    def __init__(self):\n        layer = nn.Linear(4, 4)\n"
    "        super().__init__(*[layer for _ in range(3)], nn.Linear(4, 1))\nmodel = Albert()",
    "block = nn.Linear(4, 4)\n# All depths share their weights.\nmodel = nn.Sequential(*[block] * 3, nn.Linear(4, 1))",
    "def build(n, tie):\n    if tie:\n        layers = [nn.Linear(4, 4)] * n\n    else:\n"
    "        layers = [nn.Linear(4, 4) for _ in range(n)]\n    return nn.Sequential(*layers, nn.Linear(4, 1))\n"
    "model = build(3, True)",
    "layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in 'abc'})\n" + OF_DICT,
    "layers = nn.ModuleDict(zip('abc', (nn.Linear(4, 4) for _ in range(3))))\n" + OF_DICT,
    "sizes = [4] * 3\nmodel = nn.Sequential(*[nn.Linear(n, 4) for n in sizes], nn.Linear(4, 1))",
)


@pytest.mark.parametrize("layers", ONE_LAYER)
def test_one_layer_at_many_places_of_a_list_is_told(layers: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LAYERS.format(layers=layers) + TRAIN, "one_module_at_many_places", tmp_path)


AGENTS = (
    HEAD
    + """
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.net(x)

AGENTS
optimizers = [torch.optim.Adam(agent.parameters(), lr=0.01) for agent in agents]
for step in range(5):
    x = torch.randn(3, 16, 4)
    for i, (agent, optimizer) in enumerate(zip(agents, optimizers)):
        loss = (agent(x[i]).squeeze(1) - x[i, :, i]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)


@pytest.mark.parametrize("agents", ["agents = [Agent()] * 3  # HERE", "agents = 3 * [Agent()]  # HERE"])
def test_an_agent_that_stands_three_times_in_a_list_is_told(agents: str, tmp_path: Path) -> None:
    assert_first_alarm(AGENTS.replace("AGENTS", agents), "one_module_at_many_places", tmp_path)


@pytest.mark.parametrize(
    "agents",
    ["agents = [Agent() for _ in range(3)]", "first = Agent()\nagents = [copy.deepcopy(first) for _ in range(3)]"],
)
def test_agents_of_their_own_are_right(agents: str, tmp_path: Path) -> None:
    assert not alarms(AGENTS.replace("AGENTS", agents), tmp_path)


@pytest.mark.parametrize("layers", OWN_LAYERS)
def test_layers_of_their_own_and_shared_ones_are_right(layers: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + LAYERS.format(layers=layers) + TRAIN, tmp_path)


BY_HAND = """
inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
model = nn.Linear(4, 1)
for step in range(4):
    model.zero_grad()
    F.mse_loss(model(inputs), targets).backward()
"""
LOST = (
    "    with torch.no_grad():\n        for p in model.parameters():\n            p = p - 0.1 * p.grad  # HERE",
    "    new = [p.data.add(p.grad, alpha=-0.1) for p in model.parameters()]  # HERE",
    "    ps = list(model.parameters())\n    with torch.no_grad():\n"
    "        torch._foreach_add(ps, [p.grad for p in ps], alpha=-0.1)  # HERE",
    "    rates = {n: torch.full_like(p, 0.1) for n, p in model.named_parameters()}\n"
    "    new = {n: torch.addcmul(p.detach(), p.grad, rates[n], value=-1) for n, p in model.named_parameters()}  # HERE",
)
KEPT = (
    "    with torch.no_grad():\n        for p in model.parameters():\n            p -= 0.1 * p.grad",
    "    for p in model.parameters():\n        p.data = p.data - 0.1 * p.grad",
    "    ps = list(model.parameters())\n    with torch.no_grad():\n"
    "        torch._foreach_copy_(ps, torch._foreach_add(ps, [p.grad for p in ps], alpha=-0.1))",
    "    ps = list(model.parameters())\n    with torch.no_grad():\n"
    "        torch._foreach_sub_(ps, torch._foreach_mul([p.grad for p in ps], 0.1))",
    "    with torch.no_grad():\n        for p in model.parameters():\n            p.copy_(p - 0.1 * p.grad)",
    "    fast = {name: p.detach() - 0.1 * p.grad for name, p in model.named_parameters()}\n"
    "    print(torch.func.functional_call(model, fast, inputs).mean())",
)


@pytest.mark.parametrize("update", LOST)
def test_an_update_that_no_parameter_gets_is_told(update: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + BY_HAND + update, "update_discarded", tmp_path)


@pytest.mark.parametrize("update", KEPT)
def test_an_update_that_is_written_or_used_is_right(update: str, tmp_path: Path) -> None:
    found = alarms(HEAD + BY_HAND + update, tmp_path)
    assert "update_discarded" not in [each.cause for each in found]


LEAVES = """
a, b = torch.randn(4, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
inputs, targets = torch.randn(8, 4), torch.randint(0, 3, (8,))
for step in range(3):
    loss = F.cross_entropy(inputs @ a + b, targets)
    grads = torch.autograd.grad(loss, [a, b])
    with torch.no_grad():
        {update}
"""


def test_an_update_of_plain_leaves_that_is_thrown_away_is_told(tmp_path: Path) -> None:
    update = LEAVES.format(update="torch._foreach_add([a, b], grads, alpha=-0.1)  # HERE")
    assert_first_alarm(HEAD + update, "update_discarded", tmp_path)
    assert not alarms(HEAD + LEAVES.format(update="torch._foreach_add_([a, b], grads, alpha=-0.1)"), tmp_path)


FOLLOWED_BY = """
model, teacher = nn.Linear(4, 1), nn.Linear(4, 1).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x), teacher(x + 0.1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, t in zip(model.parameters(), teacher.parameters()):
            {update}
"""


@pytest.mark.parametrize(
    "update",
    [
        "t = 0.9 * t + 0.1 * p  # HERE",
        "p = p.clamp(-0.1, 0.1)  # HERE",
        "t = t.lerp(p, 0.1)  # HERE",
        "p = (0.9 * p + 0.1 * t).clone()  # HERE",
        "p = torch.stack([p.data, t.data]).mean(0)  # HERE",
        "g = p.grad\n            g = torch.sub(g, g.mean())  # HERE",
        "g = p.grad\n            g = g / (g.norm() + 1)  # HERE",
    ],
)
def test_an_average_or_a_bound_that_only_a_variable_gets_is_told(update: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + FOLLOWED_BY.format(update=update), "update_discarded", tmp_path)


@pytest.mark.parametrize(
    "update",
    [
        "t.copy_(0.9 * t + 0.1 * p)",
        "t.data = 0.9 * t + 0.1 * p",
        "p.clamp_(-0.1, 0.1)",
        "size = p.mul(2)",
        "p = p - t; print(p.norm())",
        "p = p.clone()\n            kept = [p]",
        "g = p.grad\n            g = g / (g.norm() + 1)\n            kept = [g]",
        "g = p.grad\n            g = g / 2\n            p.grad = g",
    ],
)
def test_an_average_that_is_written_and_what_only_looks_at_parameters_are_right(update: str, tmp_path: Path) -> None:
    found = alarms(HEAD + FOLLOWED_BY.format(update=update), tmp_path)
    assert "update_discarded" not in {each.cause for each in found}


BEHIND = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
for step in range(8):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
sched.step()  # HERE
"""


def test_a_schedule_that_is_stepped_behind_the_loop_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + BEHIND, "schedule_without_effect", tmp_path)


def test_a_schedule_that_is_stepped_behind_each_epoch_is_right(tmp_path: Path) -> None:
    head, body = BEHIND.split("for step in range(8):")
    of_epochs = "for epoch in range(1):\n    for step in range(8):" + body.replace("\n", "\n    ")
    assert not alarms(HEAD + head + of_epochs, tmp_path)
