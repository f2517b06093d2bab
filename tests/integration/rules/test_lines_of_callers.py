"""Of a helper that only detaches and the line that calls it, and of a choice and the line that takes what was chosen,
the one to edit; and faults that several rules or modules show, told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CAPTIONS = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x, state):
        state = HELPED
        return self.rnn(x, state)[0]

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.h, self.c = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x):
        return self.h(x).tanh()[None], self.c(x).tanh()[None]

encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for step in range(3):
    x, image = torch.randn(6, 4, 3), torch.randn(6, 5)
    out = decoder(x, encoder(image))
    loss = (out - image[:, None, :4]).square().mean()
"""
REPACKAGE = """
def repackage(state):
    if isinstance(state, torch.Tensor):
        return state.detach()
    return tuple(repackage(each) for each in state)
"""
DECORATED = """
losses = {}
def measured(name):
    def decorate(f):
        def run(*given):
            with torch.no_grad():
                return f(*given)
        losses[name] = run
        return run
    return decorate
@measured("error")  # HERE
def error(out, x):
    return (out - x[:, :1]).square().mean()
"""
TOWER = """
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x).tanh()

tower, head = Tower(), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*tower.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    out = head(HIDDEN)
    loss = (out - x[:, :1]).square().mean()
"""
ROUTED = """
class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        CHOICE
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero().squeeze(1)
            TAKEN
        return out

net = Routed()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(32, 4)
    loss = (net(x) - x.flip(1)).square().mean()
"""
POOLED = """
embed, score, head = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *score.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(8, 5, 4)
    nodes = embed(x).tanh()
    scores = score(nodes).squeeze(-1)
    KEPT
    loss = (head(kept.mean(1)) - x[:, 0, :1]).square().mean()
"""
CODES = """
encoder, decoder = nn.Linear(4, 3), nn.Linear(3, 4)
codes = nn.Parameter(torch.randn(6, 3))
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), codes], lr=0.1)
for step in range(3):
    x = torch.randn(16, 4)
    unit = F.normalize(codes, dim=1)
    near = (F.normalize(encoder(x), dim=1) @ unit.t()).argmax(1)  # HERE
    loss = (decoder(unit[near]) - x).square().mean()
"""

WRONG: dict[str, tuple[str, str]] = {
    "a helper that detaches a tuple": (
        "detached",
        REPACKAGE + CAPTIONS.replace("HELPED", "repackage(state)  # HERE") + TRAIN,
    ),
    "a helper that detaches a list": (
        "detached",
        "def frozen(states):\n    return [s.detach().clone() for s in states]\n"
        + CAPTIONS.replace("HELPED", "frozen(state)  # HERE")
        + TRAIN,
    ),
    "a helper that gives an array": (
        "numpy_roundtrip",
        "def array(t):\n    return t.detach().cpu().numpy()\n"
        + TOWER.replace("head(HIDDEN)", "head(torch.from_numpy(array(tower(x))))  # HERE")
        + TRAIN,
    ),
    "a module that only detaches": (
        "detached",
        "class Stop(nn.Module):\n    def forward(self, x):\n        return x.detach()\nstop = Stop()\n"
        + TOWER.replace("head(HIDDEN)", "head(stop(tower(x)))  # HERE")
        + TRAIN,
    ),
    "a function that computes what it detaches": (
        "detached",
        "def hidden(tower, x):\n    return tower(x).detach()  # HERE\n"
        + TOWER.replace("HIDDEN", "hidden(tower, x)")
        + TRAIN,
    ),
    "a function that moves what it detaches to the model's type": (
        "detached",
        "def prepared(h, kind=torch.float32):\n    return h.detach().to(kind)  # HERE\n"
        + TOWER.replace("HIDDEN", "prepared(tower(x))")
        + TRAIN,
    ),
    "a decorator that runs a loss without gradients": (
        "no_grad_block",
        DECORATED
        + TOWER.replace("HIDDEN", "tower(x)").replace("(out - x[:, :1]).square().mean()", "error(out, x)")
        + TRAIN,
    ),
    "a helper that keeps a copy for a log": (
        "detached",
        "def logged(h):\n    return h.detach().to('cpu')\n"
        + TOWER.replace("head(HIDDEN)", "head(logged(tower(x)))  # HERE")
        + TRAIN,
    ),
    "a function that computes with what it detaches": (
        "detached",
        "def scaled(h):\n    h = h.detach()  # HERE\n    return h / h.norm(dim=1, keepdim=True)\n"
        + TOWER.replace("HIDDEN", "scaled(tower(x))")
        + TRAIN,
    ),
    "layers that all get the same input": (
        "unused_parameter",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + self.first(x))

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(3)), nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            out = block(x)  # HERE
        return self.head(out)

net = Deep()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = (net(x) - x[:, :1]).square().mean()
"""
        + TRAIN
        + "    with torch.no_grad():\n        print((net(x) - x[:, :1]).abs().mean())\n",
    ),
    "a function that detaches unless it is told not to": (
        "detached",
        "def hidden(tower, x, detach=True):\n    h = tower(x)\n    return h.detach() if detach else h\n"
        + TOWER.replace("HIDDEN", "hidden(tower, x)").replace("x))", "x))  # HERE")
        + TRAIN,
    ),
    "a function that is told to detach": (
        "data_access",
        "def hidden(tower, x, *, train):\n    h = tower(x)\n    if not train:\n        h = h.data\n    return h * 2\n"
        + TOWER.replace("head(HIDDEN)", "head(hidden(tower, x, train=False))  # HERE")
        + TRAIN,
    ),
    "a module that a library calls": (
        "detached",
        "class Stop(nn.Module):\n    def forward(self, x):\n        return x.detach()  # HERE\n"
        + TOWER.replace("head(HIDDEN)", "nn.Sequential(tower, Stop(), head)(x)")
        + TRAIN,
    ),
    "rows that an expert gets, by max": (
        "non_differentiable_op",
        ROUTED.replace("CHOICE", "best, choice = scores.max(-1)").replace(
            "TAKEN", "out[rows] = expert(x[rows])  # HERE"
        )
        + TRAIN,
    ),
    "rows that an expert gets, by argmax, on several lines": (
        "non_differentiable_op",
        ROUTED.replace("CHOICE", "choice = scores.argmax(-1)").replace(
            "TAKEN", "given = x.index_select(0, rows)\n            out = out.index_add(0, rows, expert(given))  # HERE"
        )
        + TRAIN,
    ),
    "nodes that topk chooses, by gather": (
        "non_differentiable_op",
        POOLED.replace(
            "KEPT",
            "index = scores.topk(2, dim=1).indices\n"
            "    kept = nodes.gather(1, index[..., None].expand(-1, -1, 6))  # HERE",
        )
        + TRAIN,
    ),
    "nodes that argsort chooses, by an index": (
        "non_differentiable_op",
        POOLED.replace(
            "KEPT",
            "order = scores.argsort(dim=1, descending=True)[:, :2]\n"
            "    kept = nodes[torch.arange(8)[:, None], order]  # HERE",
        )
        + TRAIN,
    ),
    "codes that argmax chooses": ("non_differentiable_op", CODES + TRAIN),
    "old parameters after weight_norm": (
        "stale_optimizer_params",
        """
import warnings
warnings.simplefilter("ignore")
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for layer in (net[0], net[2]):
    nn.utils.weight_norm(layer)  # HERE
for step in range(6):
    x = torch.randn(16, 6)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
"""
        + TRAIN,
    ),
    "old parameters after a parametrization": (
        "stale_optimizer_params",
        """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for layer in (net[0], net[2]):
    nn.utils.parametrizations.weight_norm(layer)  # HERE
for step in range(6):
    x = torch.randn(16, 6)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
"""
        + TRAIN,
    ),
    "weights of a layer that another one makes, by vector_to_parameters": (
        "data_access",
        """
from torch.nn.utils import parameters_to_vector, vector_to_parameters
trunk, layer = nn.Linear(4, 4), nn.Linear(4, 2)
made = nn.Linear(3, parameters_to_vector(layer.parameters()).numel())
optimizer = torch.optim.SGD([*trunk.parameters(), *made.parameters()], lr=0.1)
for step in range(4):
    x, task = torch.randn(8, 4), torch.randn(3)
    vector_to_parameters(made(task), layer.parameters())  # HERE
    loss = (layer(trunk(x)) - x[:, :2]).square().mean()
"""
        + TRAIN,
    ),
    "two layers with a softmax over one element": (
        "zero_gradient_op",
        """
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.own = nn.Linear(4, 3), nn.Linear(4, 4)

    def forward(self, x):
        best = self.gate(x).topk(1).values
        return x + best.softmax(-1) * self.own(x)  # HERE

net = nn.Sequential(Gated(), Gated())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 4)
    loss = (net(x) - x.flip(1)).square().mean()
"""
        + TRAIN,
    ),
}


@pytest.mark.parametrize(("cause", "script"), WRONG.values(), ids=WRONG)
def test_the_line_to_edit_is_named_once(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)
    assert len(alarms(HEAD + script, tmp_path)) == 1


def test_names_that_end_like_those_of_weight_norm_are_no_factors(tmp_path: Path) -> None:
    script = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight_q, self.weight_v = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4, 4))
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return (x @ self.weight_q) @ (x @ self.weight).detach().t() @ (x @ self.weight_v)

net = Net()
optimizer = torch.optim.SGD([net.weight_q, net.weight], lr=0.01)
for step in range(6):
    x = torch.randn(3, 4)
    loss = (net(x) - x).square().mean()
"""
    found = alarms(HEAD + script + TRAIN, tmp_path)
    assert {each.cause for each in found} == {"detached", "not_stepped"}
