"""What libraries do that looks like a mistake, written in one file; and the mistake that it looks like."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, findings

FROZEN = """
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.mix, self.out = nn.Dropout(0.1), nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x, prefix):
        h = torch.cat([prefix.expand(len(x), -1, -1), self.drop(x)], 1)
        return self.out({dropped}.mean(1))
class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body().requires_grad_(False)
        self.prefix = nn.Parameter(torch.randn(1, 2, 8)){more}
    def forward(self, x):
        return {result}
def main():
    model = Prompted()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    model.train()
    for step in range(4):
        x = torch.randn(6, 5, 8)
        loss = F.cross_entropy(model(x), {wanted})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""
LABELS = "(x[:, 0, 0] > 0).long()"
CENTRED = """
points, scale = nn.Parameter(torch.randn(12, 2)), nn.Parameter(torch.ones(()))
others = {others}
optimizer = torch.optim.Adam([points, scale, *(p for each in others for p in each.parameters())], lr=0.01)
def squared(a, b):
    middle = a.mean(-2, keepdim=True)
    {used}
    return (a.square().sum(-1, keepdim=True) + b.square().sum(-1) - 2 * a @ b.mT).clamp(min=0)
for step in range(4):
    x = torch.randn(12, 2)
    middle = points.mean(0)
    near = torch.exp(-squared((points - middle) / scale, (x - middle) / scale))
    loss = (near.mean(0) - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
UNROLLED = """
def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model, scale = net(), nn.Parameter(torch.zeros(4))
inner = torch.optim.SGD(model.parameters(), lr=0.1)
outer = torch.optim.Adam([scale], lr=0.01)
def loss_of(net, x):
    return F.mse_loss(net(x * scale.exp())[:, 0], x[:, 0])
for step in range(4):
    x, held_out = torch.randn(8, 4), torch.randn(8, 4)
    ahead = net()
    grads = torch.autograd.grad(loss_of(model, x), model.parameters())
    for new, p, g in zip(ahead.parameters(), model.parameters(), grads):
        new.data.copy_(p.data - 0.1 * g)
    outer.zero_grad()
    loss_of(ahead, held_out).backward()
    vector = [p.grad.data for p in ahead.parameters()]
    small = 0.01 / torch.cat([v.flatten() for v in vector]).norm()
    {moved}
    outer.step()
    inner.zero_grad()
    loss_of(model, x).backward()
    inner.step()
"""
MOVED = """for sign in (1, -2, 1):
        for p, v in zip(model.parameters(), vector):
            p.data.add_(v, alpha=sign * small)
        if sign == 1 and small is not None:
            (there,) = torch.autograd.grad(loss_of(model, x), [scale])
            scale.grad.data.sub_(there, alpha=0.05)"""
WIDE = """
layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(8)])
for layer in layers:
    nn.init.normal_(layer.weight, std={std})
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-4)
for step in range(3):
    h = torch.randn(16, 8)
    for layer in layers:
        h = h + torch.tanh(layer(h)) if {is_residual} else layer(h)
    penalty = sum(layer.weight.abs().mean() for layer in layers) + sum(layer.bias.abs().mean() for layer in layers)
    loss = h.square().mean() + 1e-6 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
POTENTIAL = """
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.rand(1, 16, 2, requires_grad=True)
    u = net(x)
    g = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    laplace = 0.0
    for i in range(2):
        part = g{column}
        laplace = laplace + torch.autograd.grad(part, x, torch.ones_like(part), create_graph=True)[0][..., i : i + 1]
    loss = (laplace - 1).square().mean() + u.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DENSITY = """
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
base = torch.distributions.Normal(0.0, 1.0)
for step in range(4):
    z = torch.randn(32, 4)
    log_q = base.log_prob(z).sum(1)
    for part in range(2):
        kept, moved = z.chunk(2, 1)
        shift, scale = net(kept).chunk(2, 1)
        z = torch.cat([moved * scale.tanh().exp() + shift, kept], 1)
        log_q = log_q - scale.tanh().sum(1) * {weights}
    loss = (log_q - base.log_prob(z).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STAGES = """
class Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stages, value, index):
        ctx.index = index
        stages.data[index] = value
        return stages
    @staticmethod
    def backward(ctx, grad):
        return grad, grad[ctx.index], None
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    y, weights = torch.randn(4, 2), torch.tensor([0.5, 0.3, 0.2], requires_grad=True)
    stages = torch.empty(4, 2, 3)
    for i in range(3):
        stages = Put.apply(stages, net(y), (..., {place}))
        y = y + (stages[..., {read}] * weights[{read}]).sum(-1)
    loss = y.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BALANCED = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
weights = nn.Parameter(torch.ones(2))
optimizer, balance = torch.optim.Adam(net.parameters(), lr=0.01), torch.optim.Adam([weights], lr=0.02)
for step in range(4):
    x = torch.randn(16, 4)
    losses = (net(x) - x[:, :2] * torch.tensor([1.0, 5.0])).square().mean(0)
    optimizer.zero_grad()
    (weights * losses).sum().backward(retain_graph=True)
    grads = [torch.autograd.grad(each, net[0].weight, retain_graph=True)[0] for each in losses]
    norms = torch.stack([(w * g).norm() for w, g in zip(weights, grads)])
    uneven = (norms - norms.detach().mean()).abs().sum()
    {given}
    optimizer.step()
    balance.step()
    weights.data = weights.data * 2 / weights.data.sum()
"""
SCANNED = """
class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.keep, self.new, self.read = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(4, 8)
        nn.init.normal_(self.read.weight, std=0.5)
    def forward(self, inputs):
        kept, deltas, read = self.keep(inputs).sigmoid(), self.new(inputs), self.read(inputs)
        state, states = torch.zeros(len(inputs), 8), []
        for i in range(inputs.shape[1]):
            state = kept[:, i] * state + deltas[:, i]
            states.append(state)
        return torch.stack(states, 1) * read
embed, scan, head = nn.Embedding(6, 4), Scan(), nn.Linear(8, 6)
optimizer = torch.optim.Adam([*embed.parameters(), *scan.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    ids = torch.randint(0, 6, (8, 7))
    {words}
    loss = F.cross_entropy(head(scan(embed(ids[:, :-1]))).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WRAPPED = """
class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.scale = inner, nn.Parameter(torch.ones(8))
    def forward(self, x):
        return self.inner(x) * self.scale
class Copied(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.other = inner, nn.Linear(4, 8)
        {named}
    def forward(self, x):
        return self.other(x) + self.inner(x) + self.kept(x)
def frozen(layer):
    while hasattr(layer, "inner"):
        layer = layer.inner
    return layer.requires_grad_(False)
net = nn.Sequential({made}(nn.Linear(4, 8)), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
{freeze}
for step in range(4):
    x = torch.randn(16, 4)
    loss = F.cross_entropy(net(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEALTHY = {
    "a frozen model that drops what it reads and what it makes of that and of a trained prefix": FROZEN.format(
        dropped="self.drop(self.mix(h).tanh())", result="self.body(x, self.prefix)", wanted=LABELS, more=""
    ),
    "values that are centred once more, with those that they are compared with": CENTRED.format(
        used="a, b = a - middle, b - middle", others="[]"
    ),
    "the same, of the values alone": CENTRED.format(used="a = a.sub(middle)", others="[]"),
    "gradients of a model that looks ahead, along which the trained one is moved": UNROLLED.format(moved=MOVED),
    "layers whose weights a small penalty meets, too": WIDE.format(std=0.3, is_residual=True),
    "second derivatives of each column, of points in two axes": POTENTIAL.format(column="[..., i]"),
    "log-determinants that are counted once for each sample": DENSITY.format(weights="torch.ones(32)"),
    "stages of a solver that are written beside those that were read": STAGES.format(place="i", read=":i + 1"),
    "a gradient that grad() puts in the place of what backward() added up": BALANCED.format(
        given="weights.grad = torch.autograd.grad(uneven, weights)[0]"
    ),
    "the states of a model that reads a sequence": SCANNED.format(words=""),
    "the same, of words that were drawn": SCANNED.format(
        words="ids = torch.multinomial(torch.softmax(torch.randn(8, 6), 1), 7, replacement=True)"
    ),
    "a loop that goes down to the layer that an adapter wraps": WRAPPED.format(
        named="self.kept = copy.deepcopy(inner)", made="Wrapped", freeze=""
    ).replace("optimizer = ", "frozen(net[0])\noptimizer = "),
}
FAULTY = {
    "a frozen model that drops values of targets": (
        FROZEN.format(
            dropped="self.drop(self.mix(h).tanh())",
            result="self.head(x.mean(1)) + self.prefix.mean()",
            wanted="model.body(x, x[:1, :2]).softmax(1)",
            more="; self.head = nn.Linear(8, 2)",
        ),
        "training_mode",
    ),
    "a mean of centred values that the loss reads": (
        CENTRED.format(used="a = a - middle + others[0](middle)", others="nn.ModuleList([nn.Linear(2, 1)])"),
        "cancels_to_zero",
    ),
    "gradients of a model that looks ahead, which are only printed": (
        UNROLLED.format(moved="print(vector[0].norm(), small)"),
        "stale_optimizer_params",
    ),
    "layers that each make the gradient larger, beside a small penalty": (
        WIDE.format(std=1.5, is_residual=False),
        "exploding_chain",
    ),
    "second derivatives of all columns at once": (POTENTIAL.format(column=""), "outputs_summed"),
    "a target that discounts the next value by a tensor": (
        """
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x, y, reward = torch.randn(32, 4), torch.randn(32, 4), torch.randn(32)
    following = net(y)[:, 0] * torch.full((32,), 0.95)
    loss = (reward + following - net(x)[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        "gradient_into_target",
    ),
    "stages of a solver that are written over each other": (
        STAGES.format(place="0", read="0").replace(".sum(-1)", ""),
        "data_access",
    ),
    "a gradient that grad() adds to what backward() added up": (
        BALANCED.format(given="weights.grad = weights.grad + torch.autograd.grad(uneven, weights)[0]"),
        "missing_zero_grad",
    ),
    "a layer that is kept under a second name, and frozen": (
        WRAPPED.format(named="self.kept = self.inner", made="Copied", freeze="net[0].kept.requires_grad_(False)"),
        "copied_onto_itself",
    ),
}


@pytest.mark.parametrize("case", HEALTHY)
def test_what_libraries_do_is_not_told(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []


@pytest.mark.parametrize("case", FAULTY)
def test_what_it_looks_like_is_told(case: str, tmp_path: Path) -> None:
    script, cause = FAULTY[case]
    assert [each.cause for each in alarms(HEAD + script, tmp_path)] == [cause]


QUERIES = """
import torch
class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.places = torch.nn.Parameter(torch.randn(3, 8))
        self.own, self.out = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
    def forward(self, x{more}):
        queries = {zeros}
        h = queries + self.own(queries).tanh() + self.places
        return self.out((h @ x.mT).softmax(-1) @ x).mean(1)
"""
DECODED = """
import sys
sys.path.insert(0, {folder!r})
{decoder}
model = Decoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 5, 8)
    loss = F.cross_entropy(model(x{more}), (x[:, 0, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("is_of_library", "zeros", "more", "severity"),
    [
        (True, "torch.zeros_like(self.places)", ("", ""), "note"),
        (False, "torch.zeros_like(self.places)", ("", ""), "warning"),
        (True, "given[0]", (", given", ", torch.zeros(1, 3, 8)"), "warning"),
        (True, "(given > 0).float()", (", given", ", -torch.rand(3, 8)"), "warning"),
    ],
)
def test_zeros_that_a_library_fills_in_and_computes_with_are_a_note(
    is_of_library: bool,
    zeros: str,
    more: tuple[str, str],
    severity: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    source = QUERIES.format(zeros=zeros, more=more[0])
    (library / "decoders.py").write_text(source)
    monkeypatch.delitem(sys.modules, "decoders", raising=False)
    decoder = "from decoders import Decoder" if is_of_library else source
    found = findings(HEAD + DECODED.format(folder=str(library), decoder=decoder, more=more[1]), tmp_path)
    assert [(each.cause, each.severity) for each in found] == [("masked_out", severity)]
    assert found[0].tensors == ("model.own.weight",)


SHARPNESS = """
import torch
class Sharpness(torch.optim.Optimizer):
    def __init__(self, params, base):
        super().__init__(params, {{}})
        self.base = base(self.param_groups)
    @torch.no_grad()
    def climb(self):
        held = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in held]).norm()
        self.moves = [0.05 * p.grad / norm for p in held]
        for p, move in zip(held, self.moves):
            {climb}
        self.zero_grad()
    @torch.no_grad()
    def step(self):
        held = [p for group in self.param_groups for p in group["params"]]
        for p, move in zip(held, self.moves):
            {descend}
        self.base.step()
"""
CLIMBED = """
import sys
sys.path.insert(0, {folder!r})
from sharpness import Sharpness
model = nn.Linear(4, 1)
optimizer = Sharpness(model.parameters(), lambda groups: torch.optim.SGD(groups, lr=0.1))
for step in range(4):
    x = torch.randn(8, 4)
    F.mse_loss(model(x)[:, 0], x[:, 0]).backward()
    optimizer.climb()
    F.mse_loss(model(x)[:, 0], x[:, 0]).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("climb", "descend", "causes"), [("p.add_(move)", "p.sub_(move)", []), ("pass", "pass", ["missing_zero_grad"])]
)
def test_gradients_along_which_a_library_moves_parameters_are_used(
    climb: str, descend: str, causes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "sharpness.py").write_text(SHARPNESS.format(climb=climb, descend=descend))
    monkeypatch.delitem(sys.modules, "sharpness", raising=False)
    found = alarms(HEAD + CLIMBED.format(folder=str(library)), tmp_path)
    assert [each.cause for each in found] == causes


BOUNDED = """
import torch
class Bounded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.register_buffer("low", torch.full((2,), -1.0))
    def forward(self, x):
        return torch.maximum(self.layer(x), self.low)
    def held(self):
        return [*self.parameters(), self.low{seen}]
"""
HELD = """
import sys
sys.path.insert(0, {folder!r})
{bounded}
model = Bounded()
optimizer = torch.optim.SGD(model.held(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x), x[:, :2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("is_of_library", "seen", "causes"),
    [
        (True, "", []),
        (True, ".view_as(self.low)", []),
        (False, ".view_as(self.low)", ["requires_grad_false"]),
    ],
)
def test_constants_that_a_library_lists_with_its_parameters_are_not_told(
    is_of_library: bool, seen: str, causes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    source = BOUNDED.format(seen=seen)
    (library / "bounded.py").write_text(source)
    monkeypatch.delitem(sys.modules, "bounded", raising=False)
    bounded = "from bounded import Bounded" if is_of_library else source
    found = alarms(HEAD + HELD.format(folder=str(library), bounded=bounded), tmp_path)
    assert [each.cause for each in found] == causes


PADDED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(8, eps={eps}), nn.MultiheadAttention(8, 1, batch_first=True)
        self.last, self.out = nn.LayerNorm(8, eps={eps}), nn.Linear(8, 8)
        nn.init.zeros_(self.out.bias)
    def forward(self, x, hidden):
        q = self.norm(x)
        x = self.last(q + self.mix(q, x, x, attn_mask=hidden)[0])
        return (x + self.out(x).relu()){masked}
words = nn.Embedding(20, 8, padding_idx=0)
blocks, last = nn.ModuleList([Block() for _ in range(2)]), nn.LayerNorm(8, eps={eps})
hidden = torch.triu(torch.ones(8, 8, dtype=torch.bool), 1)
optimizer = torch.optim.Adam([*words.parameters(), *blocks.parameters(), *last.parameters()], lr=0.001)
for step in range(3):
    ids = torch.randint(1, 20, (16, 9))
    ids[torch.arange(9) < torch.randint(1, 6, (16, 1))] = 0
    x, given = words(ids[:, :-1]), (ids[:, :-1] != 0)[..., None]
    for block in blocks:
        x = block(x, hidden)
    logits = last(x) @ words.weight.T
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_normalized_rows_of_padding_are_told_with_what_helps(tmp_path: Path) -> None:
    script = HEAD + PADDED.format(eps=1e-8, masked="")
    (found,) = alarms(script, tmp_path)
    assert found.cause == "exploding_chain"
    assert found.location is not None
    assert "nn.LayerNorm(8, eps=1e-08)" in script.splitlines()[found.location.line - 1]
    assert "larger eps" in found.fix
    assert "multiply what each layer returns by the mask" in found.fix
    assert alarms(HEAD + PADDED.format(eps=1e-5, masked=" * given"), tmp_path) == []


KEPT_ON_CTX = """
import torch
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = [x.exp()]
        return ctx.kept[0]
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.kept[0]
def exp(x):
    return Exp.apply(x)
"""


@pytest.mark.parametrize(("is_of_library", "severity"), [(True, "note"), (False, "warning")])
def test_a_result_that_a_library_keeps_on_ctx_is_a_note(
    is_of_library: bool, severity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "exponentials.py").write_text(KEPT_ON_CTX)
    monkeypatch.delitem(sys.modules, "exponentials", raising=False)
    path = f"import sys\nsys.path.insert(0, {str(library)!r})\n"
    function = f"{path}from exponentials import exp\n" if is_of_library else KEPT_ON_CTX
    found = findings(HEAD + function + "exp(torch.randn(4, requires_grad=True) * 2).sum().backward()\n", tmp_path)
    assert [(each.cause, each.severity) for each in found] == [("graph_retained_leak", severity)]
