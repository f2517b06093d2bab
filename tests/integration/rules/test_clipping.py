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


PLUGINS = (
    HEAD
    + """
from operator import attrgetter
REGISTRY = {}
def plugin(name, order):
    def add(kind):
        kind.order = order
        REGISTRY[name] = kind
        return kind
    return add

DECORATE_CLIP
class Clip:
    ORDER_OF_CLIP
    def __init__(self, most=1.0):
        self.most = most
    def after_backward(self, params):
        nn.utils.clip_grad_norm_(params, self.most)  # CLIPS

DECORATE_SCALE
class Unscale:
    ORDER_OF_SCALE
    def after_backward(self, params):
        for p in params:
            p.grad.div_(1024.0)

def clip(params):
    nn.utils.clip_grad_norm_(params, 1.0)
def unscale(params):
    for p in params:
        p.grad.div_(1024.0)

class Trainer:
    def __init__(self, plugins):
        self.plugins = plugins
        self.model = nn.Linear(4, 1)
        self.params = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.params, lr=0.1)
    def fit(self):
        for _ in range(4):
            loss = self.model(torch.randn(8, 4)).square().mean() * 1024.0
            self.optimizer.zero_grad()
            loss.backward()
            CALL
            self.optimizer.step()

chosen = [
    LIST
]
PRINTED = sorted([("b", 2), ("a", 1)], key=lambda each: each[0])
Trainer(SORT).fit()
"""
)
EACH = "for each in self.plugins: each.after_backward(self.params)"


def plugins(**parts: str) -> str:
    script = PLUGINS
    usual = {"ORDER_OF_CLIP": "pass", "ORDER_OF_SCALE": "pass", "CALL": EACH, "LIST": "Unscale(), Clip(2.0),"}
    blank = {"DECORATE_CLIP": "", "DECORATE_SCALE": "", "SORT": "chosen"}
    for name, part in (usual | blank | parts).items():
        script = script.replace(name, part)
    return script if "# HERE" in script else script.replace("# CLIPS", "# HERE")


ASCENDING = "sorted(chosen, key=lambda each: each.order)"
DOWNWARD = "sorted(chosen, key=attrgetter('order'), reverse=True)"


@pytest.mark.parametrize(
    ("script", "cure"),
    [
        (
            plugins(
                DECORATE_CLIP='@plugin("clip", order=10)  # HERE',
                DECORATE_SCALE='@plugin("unscale", 50)',
                LIST='REGISTRY["unscale"](), REGISTRY["clip"](),',
                SORT=ASCENDING,
            ),
            "give Clip one above 50, the order of Unscale",
        ),
        (
            plugins(ORDER_OF_CLIP="order = 9  # HERE", ORDER_OF_SCALE="order = -1", SORT=DOWNWARD),
            "give Clip one below -1, the order of Unscale",
        ),
        (plugins(LIST="Clip(2.0),  # HERE\n    Unscale(),"), "put Unscale before Clip"),
        (
            plugins(LIST="clip,  # HERE\n    unscale,", CALL="for each in self.plugins: each(self.params)"),
            "put unscale before clip",
        ),
        (
            plugins(
                LIST="Clip(), Unscale(),",
                CALL="Clip().after_backward(self.params); Unscale().after_backward(self.params)",
            ),
            "unscale them before",
        ),
        (
            plugins(LIST="*[REGISTRY.get(each, each) for each in (Clip(), Unscale())],  # HERE"),
            "put Unscale before Clip",
        ),
        (plugins(LIST="*reversed([Unscale(), Clip()]), "), "unscale them before"),
        (
            plugins(ORDER_OF_CLIP="order = 9", ORDER_OF_SCALE="order = 9", LIST="Clip(), Unscale(),", SORT=ASCENDING),
            "unscale them before",
        ),
    ],
    ids=["decorator", "downward", "list", "functions", "called by name", "list of a list", "reversed", "equal"],
)
def test_a_clip_that_comes_before_its_turn_is_told_where_the_turns_are_decided(
    script: str, cure: str, tmp_path: Path
) -> None:
    assert_first_alarm(script, "clip_misplaced", tmp_path)
    assert alarms(script, tmp_path)[0].fix.startswith(cure)


def test_plugins_in_the_right_order_are_right(tmp_path: Path) -> None:
    parts = {"ORDER_OF_CLIP": "order = 60", "ORDER_OF_SCALE": "order = 50"}
    for script in (plugins(), plugins(SORT=ASCENDING, LIST="Clip(), Unscale(),", **parts)):
        assert not alarms(script, tmp_path)


FOLDS = """
members = []
for fold in range(3):
    net = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(4):
        loss = (net(torch.randn(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        BEFORE
        loss.backward()
        AFTER
        optimizer.step()
    members.append(net.requires_grad_(False))
"""


def test_a_clip_of_nothing_beside_members_that_keep_their_gradients_is_told(tmp_path: Path) -> None:
    clip = "nn.utils.clip_grad_norm_(net.parameters(), 0.1)"
    early = FOLDS.replace("BEFORE", clip + "  # HERE").replace("AFTER", "pass")
    assert_first_alarm(HEAD + early, "clip_misplaced", tmp_path)
    assert not alarms(HEAD + FOLDS.replace("BEFORE", "pass").replace("AFTER", clip), tmp_path)
