"""Programs that look like the mistake of a rule and are meant: no rule raises an alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, findings

VALUES = """
n = 256
s, a, r = torch.randn(n, 4), torch.randint(0, 2, (n,)), torch.randn(n)
cut = (torch.arange(n) % 50 == 49).float()
data = torch.utils.data.TensorDataset(s, a, r, s * 0.9, cut)
value = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(value.parameters(), lr=1e-3)
for state, {action}, reward, following, {cut} in torch.utils.data.DataLoader(data, batch_size=64):
    with torch.no_grad():
        target = reward + 0.95 * value(following).squeeze(-1)
    loss = F.mse_loss(value(state).squeeze(-1){used}, target)
"""
CLASSES = """
model = nn.Linear(6, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(32, 6)
    y = x[:, :5].argmax(1)
    scores = model(x)
"""
WALK = """
score = nn.Linear(3, 1)
optimizer = torch.optim.Adam(score.parameters(), lr=0.01)
links = torch.cat([torch.randint(0, 12, (2, 40)), torch.arange(12).repeat(2, 1)], 1)
kinds, goal = torch.randn(52, 3), torch.rand(5, 12)
for step in range(4):
    e = score(kinds).squeeze(1).exp()
    p = e / torch.zeros(12).index_add(0, links[0], e)[links[0]]
"""
LAPLACIAN = """
lin, rate = nn.Linear(3, 3), nn.Parameter(torch.tensor(0.1))
optimizer = torch.optim.Adam([*lin.parameters(), rate], lr=0.01)
src, dst = torch.randint(0, 9, (2, 40))
for step in range(4):
    x = lin(torch.randn(9, 3))
    own = torch.zeros(9, 3).index_add(0, src, x[src])
"""
RANKED = """
nodes, bias = nn.Embedding(30, 4), nn.Embedding(10, 1)
optimizer = torch.optim.Adam([*nodes.parameters(), *bias.parameters()], lr=0.01)
for step in range(5):
    user, item = torch.randint(0, 30, (16,)) % 10, torch.randperm(20)[:16] + 10
    other = torch.randint(0, 10, (16,))
    worse = (nodes(item) * (nodes(other) - nodes(user))).sum(1)
"""
FILLED = """
first, second = (nn.MultiheadAttention(12, 2, batch_first=True) for _ in range(2))
inner, outer = nn.Linear(3, 12), nn.Linear(12, 3)
optimizer = torch.optim.Adam(nn.ModuleList([first, second, inner, outer]).parameters(), lr=0.01)
"""
MEANT = {
    "a bias that cancels between two answers, which are scored in one call": """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    better = torch.randint(0, 2, (8, 1))
    pair = model(torch.randn(8, 2, 4).flatten(0, 1)).view(8, 2)
    loss = -F.logsigmoid(pair.gather(1, better) - pair.gather(1, 1 - better)).mean()
""",
    "queries that begin with zeros, to which positions are added": """
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, q, k, v):
        return (self.q(q) @ self.k(k).transpose(1, 2) / 3).softmax(-1) @ self.v(v)
own, cross, inner, outer = Attend(), Attend(), nn.Linear(3, 8), nn.Linear(8, 2)
places = nn.Parameter(torch.randn(4, 8))
optimizer = torch.optim.Adam([places, *nn.ModuleList([own, cross, inner, outer]).parameters()], lr=0.01)
for step in range(5):
    memory = inner(torch.randn(6, 5, 3))
    h = torch.zeros(6, 4, 8)
    h = F.layer_norm(h + own(h + places, h + places, h), (8,))
    h = h + cross(h + places, memory, memory)
    loss = (outer(h) - 1).square().mean()
""",
    "normalizations with a large eps": """
layers = []
for _ in range(8):
    layers += [nn.Linear(16, 16), nn.BatchNorm1d(16, 0.8), nn.LeakyReLU(0.2)]
model = nn.Sequential(*layers, nn.Linear(16, 1))
for each in model:
    if isinstance(each, nn.Linear):
        nn.init.normal_(each.weight, 0.0, 0.05)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    loss = F.binary_cross_entropy_with_logits(model(torch.randn(32, 16)), torch.ones(32, 1))
""",
    "gaps between measurements, which the first attention fills": FILLED
    + """
series = [[float("nan") if (7 * i + t * t) % 5 == 0 else 0.1 * i * t for t in range(8)] for i in range(30)]
series = torch.tensor(series)[..., None].expand(30, 8, 3)
for step in range(5):
    part = torch.arange(6 * step, 6 * step + 6)
    x, seen = series[part].nan_to_num(), ~series[part, :, 0].isnan()
    h = inner(x)
    h = h + first(h, h, h, key_padding_mask=~seen)[0]
    h = h + second(h, h, h)[0]
    loss = (((outer(h) - x).square().mean(-1)) * seen).mean()
""",
    "agents and times by turns, as many of each, with short histories in front": FILLED
    + """
for step in range(5):
    path = torch.randn(5, 6, 6, 3).cumsum(2)
    known = torch.arange(6) >= 6 - torch.randint(2, 7, (5, 6, 1))
    h = inner(path * known[..., None]).flatten(0, 1)
    h = (h + first(h, h, h, key_padding_mask=~known.flatten(0, 1))[0]).view(5, 6, 6, 12)
    h = h.transpose(1, 2).flatten(0, 1)
    h = (h + second(h, h, h)[0]).view(5, 6, 6, 12)
    loss = (outer(h[:, -1]) - path[:, :, -1]).square().mean()
""",
    "sequences that are filled up in front": FILLED
    + """
for step in range(5):
    begin = torch.randint(0, 5, (8, 1))
    begin[0] = 0
    hidden = ~(torch.arange(8) >= begin)
    h = inner(torch.randn(8, 8, 3) * ~hidden[..., None])
    h = second(h, first(h, h, h, key_padding_mask=hidden)[0], h, key_padding_mask=hidden)[0]
    scores = (h @ h.transpose(1, 2)).masked_fill(hidden[:, None], float("-inf"))
    loss = (outer(scores.softmax(-1) @ h)[:, -1] - 1).square().mean()
""",
    "a walk that shares out what each node has": WALK
    + """
    now = torch.softmax(torch.randn(5, 12), 1)
    now = torch.zeros(5, 12).index_add(1, links[1], now[:, links[0]] * p)
    loss = (now - goal).square().mean()
""",
    "a walk that moves charges of both signs twice": WALK
    + """
    now = torch.randn(12, 5)
    for turn in range(2):
        now = torch.zeros(12, 5).index_add(0, links[1], now[links[0]] * p[:, None])
    loss = (now - goal.T).square().mean()
""",
    "a Laplacian of two sums": LAPLACIAN
    + """
    near = torch.zeros(9, 3).index_add(0, src, x[dst])
    loss = (x - rate * (own - near) - 1).square().mean()
""",
    "a Laplacian with a factor": LAPLACIAN
    + """
    near = torch.zeros(9, 3).scatter_add(0, src[:, None].expand(-1, 3), x[dst])
    loss = (x - own + rate * near).square().mean()
""",
    "negatives among the users of a table for users and items": RANKED
    + "    loss = F.softplus(worse).mean() + 0.01 * bias(user).square().mean()\n",
    "negatives with a bias for users": RANKED
    + """
    user = torch.cat([user, item])
    worse = torch.cat([worse, (nodes(user) * nodes(user.flip(0))).sum(1)])
    loss = F.softplus(worse).mean() + bias(other).square().mean()
""",
    "weights of another error that grow slowly with the loss": CLASSES
    + """
    log_p = -F.cross_entropy(scores, y, reduction="none")
    weight = ((1 - log_p) ** 0.5).detach()
    loss = -log_p.mean() + (weight * (scores - 1).square().sum(1)).mean()
""",
    "the value of a policy in a task without end, which no action changes": VALUES.format(
        action="action", cut="_cut", used=""
    ),
    "a time limit, which is no end": VALUES.format(action="action", cut="truncated", used=" + 0.001 * action"),
    "a loss that grows slowly with large errors": CLASSES
    + "    loss = torch.log1p(-scores.log_softmax(1).gather(1, y[:, None])).mean()\n",
    "a contrastive loss of inputs and classes": CLASSES
    + "    right = scores.gather(1, y[:, None]).squeeze(1)\n    loss = (scores.logsumexp(0)[y] - right).mean()\n",
    "amounts that are resized before they are sorted into bins": """
model = nn.Conv2d(3, 32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    depth = F.interpolate(torch.rand(2, 1, 16, 16) * 31, size=(8, 8), mode="bilinear")
    loss = F.cross_entropy(model(torch.randn(2, 3, 8, 8)), depth[:, 0].round().long())
""",
    "images with x first": """
model = nn.Conv2d(2, 2, 3, padding=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
xs, ys = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 6), indexing="ij")
for step in range(4):
    one = torch.rand(4, 1, 8, 6)
    two = one.roll(1, 2)
    flow = model(torch.cat([one, two], 1))
    grid = torch.stack([xs + flow[:, 0], ys + flow[:, 1]], -1)
    loss = (F.grid_sample(two.transpose(2, 3), grid, align_corners=True) - one).abs().mean()
""",
    "a hook that is removed at the end of each round, and a loss that grows": """
model = nn.Linear(3, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 9, 3)
for epoch in range(5):
    seen = []
    handle = model.register_forward_hook(lambda m, given, made: seen.append(made.detach().mean()))
    made = model(x[:, :-1])
    loss = sum((made[:, t] - x[:, t + 1]).square().mean() for t in range(epoch + 1))
    handle.remove()
""",
    "a gain around 1, whose target was scaled otherwise": """
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.rand(16, 6)
    odds = 1 + x.sum(1, keepdim=True)
    loss = F.mse_loss(1 + 0.5 * model(x), (odds - 1) * 0.4)
""",
    "symbols that are drawn as data": """
embed, places = nn.Embedding(11, 8), nn.Embedding(10, 8)
layer, head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 11)
parameters = [*embed.parameters(), *places.parameters(), *layer.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
for step in range(6):
    symbols = torch.randint(0, 10, (32, 10))
    begun = torch.cat([torch.full((32, 1), 10), symbols[:, :-1]], 1)
    h = embed(symbols).mean(1, keepdim=True).transpose(0, 1).contiguous()
    made, _ = layer(embed(begun) + places(torch.arange(10)), h)
    loss = F.cross_entropy(head(made).flatten(0, 1), symbols.flatten())
""",
}


@pytest.mark.parametrize("look", MEANT)
def test_what_is_meant_raises_no_alarm(look: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + MEANT[look] + TRAIN, tmp_path)


RAISED = """
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def tried(function, *given, **options):
    try:
        function(*given, **options)
    except (RuntimeError, ValueError, NotImplementedError, IndexError):
        return
for step in range(3):
    h = model(torch.randn(4, 4))
    tried(F.interpolate, torch.randn(3), size=3, mode="bilinear")
    tried(F.grid_sample, torch.randn(1, 1, 4, 4), h)
    tried(F.scaled_dot_product_attention, h[0], h[None], h[None])
    tried(torch.softmax, h, 7)
    loss = h.square().mean()
"""


def test_rules_survive_calls_that_raised(tmp_path: Path) -> None:
    assert not [each for each in findings(HEAD + RAISED + TRAIN, tmp_path) if each.cause == "failed_rule"]
