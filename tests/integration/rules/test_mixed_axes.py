"""A reshape where two axes should have changed places, and reshapes that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SEGMENTS = """
net = nn.Conv2d(3, 5, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(4, 3, 6, 8), torch.randint(0, 5, (4, 6, 8))
for step in range(3):
    logits, labels = net(x), y.reshape(-1)
"""
TOKENS = """
net, out = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8)), nn.Conv2d(8, 5, 1)
optimizer = torch.optim.SGD([*net.parameters(), *out.parameters()], lr=0.1)
x, y = torch.randn(4, 12, 3), torch.randint(0, 5, (4, 3, 4))
for step in range(3):
    tokens = net(x)
"""

DETECTOR = """
body, box = nn.Conv2d(1, 6, 3, 2, 1), nn.Conv2d(6, 12, 1)
optimizer = torch.optim.SGD([*body.parameters(), *box.parameters()], lr=0.1)
x, goal, anchors = torch.randn(4, 1, 10, 10), torch.randn(4, 75, 4), torch.rand(75, 4)
for step in range(3):
    raw = box(body(x).relu())
"""

RECURRENT = """
lstm, out = nn.LSTM(4, 8{layer}), nn.Linear({size}, 3)
optimizer = torch.optim.SGD([*lstm.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    x, y = torch.randn(9, 6, 4), torch.randint(3, (6,))
    states, _ = lstm(x)
"""
CELL = """
cell, out = nn.GRUCell(4, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    h, states, y = torch.zeros(6, 8), [], torch.randint(3, (6,))
    for part in torch.randn(9, 6, 4):
        h = cell(part, h)
        states.append(h)
"""
MASKS = """
net, c = nn.Conv2d(3, 4, 3, padding=1), 4
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y, b, h, w = torch.randn(4, 3, 6, 8), torch.randint(0, 4, (4, 6, 8)), 4, 6, 8
for step in range(3):
    logits = net(x)
    p = logits.softmax(1)
"""
DICE = """
    both, total = (p * t).sum((0, 2, 3)), (p + t).sum((0, 2, 3))
    loss = 1 - ((2 * both + 1) / (total + 1)).mean()
"""
READ = "    loss = F.cross_entropy(out(h[:, -1]), y)\n"
POINTS = """
point, out = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8)), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*point.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    x, y = torch.randn(4, 6, 3), torch.randint(0, 3, (4,))
"""
READ_SETS = "    loss = F.cross_entropy(out(sets), y)\n"
WRONG: dict[str, str] = {
    "points of sets that were joined, and parted as sets of points": POINTS
    + "    points = point(x.flatten(0, 1))\n    sets = points.view(6, 4, -1).mean(0)  # HERE\n"
    + READ_SETS
    + TRAIN,
    "numbers of anchors that are two rows of a map": DETECTOR.replace("12, 1)", "20, 1)").replace("75, 4", "50, 10")
    + "    rows = raw.reshape(4, -1, 10)  # HERE\n    loss = F.smooth_l1_loss(rows, goal)\n"
    + TRAIN,
    "states of time steps first": RECURRENT.format(layer="", size=8)
    + "    h = states.view(6, 9, -1)  # HERE\n"
    + READ
    + TRAIN,
    "states of time steps first, flat": RECURRENT.format(layer="", size=72)
    + "    h = F.dropout(states, 0.1)\n    h = h.reshape(6, -1)  # HERE\n    loss = F.cross_entropy(out(h), y)\n"
    + TRAIN,
    "states of samples first": RECURRENT.format(layer=", batch_first=True", size=8).replace("(9, 6, 4)", "(6, 9, 4)")
    + "    h = states.tanh().reshape(9, 6, 8)  # HERE\n    loss = F.cross_entropy(out(h[-1]), y)\n"
    + TRAIN,
    "stacked states": CELL + "    h = torch.stack(states).view(6, 9, 8)  # HERE\n" + READ + TRAIN,
    "two results of each sample": CELL + "    h = torch.stack([states[0], states[-1]]).reshape(6, 16)  # HERE\n"
    "    loss = F.cross_entropy(h @ torch.ones(16, 3), y)\n" + TRAIN,
    "scores of pixels, of which some are left out": SEGMENTS
    + """
    flat = logits.contiguous().view(-1, 5)  # HERE
    keep = labels != 4
    loss = F.cross_entropy(flat[keep], labels[keep])
"""
    + TRAIN,
    "probabilities of pixels that a loss by hand takes": SEGMENTS
    + """
    p = logits.softmax(1).reshape(-1, 5)  # HERE
    t = F.one_hot(labels, 5).float()
    loss = 1 - (2 * (p * t).sum(0) / (p.sum(0) + t.sum(0) + 1)).mean()
"""
    + TRAIN,
    "scores of pixels whose classes go behind one of two axes": SEGMENTS
    + """
    loss = F.cross_entropy(logits.transpose(1, 2).reshape(-1, 5), labels)  # HERE
"""
    + TRAIN,
    "scores of pixels, viewed with the classes last before they are flattened": SEGMENTS
    + """
    flat = logits[:, :, :4].reshape(4, 4, 8, 5)  # HERE
    loss = F.nll_loss(flat.flatten(0, 2).log_softmax(-1), y[:, :4].reshape(-1))
"""
    + TRAIN,
    "tokens that are viewed as a map": TOKENS
    + """
    loss = F.cross_entropy(out(tokens.reshape(4, 8, 3, 4)), y)  # HERE
"""
    + TRAIN,
    "scores of tokens that are viewed with the classes first": """
net = nn.Linear(3, 5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = F.cross_entropy(net(torch.randn(4, 7, 3)).view(4, 5, 7), torch.randint(0, 5, (4, 7)))  # HERE
"""
    + TRAIN,
    "tokens that are flattened and unflattened for a convolution": TOKENS.replace(
        "nn.Conv2d(8, 5, 1)", "nn.Conv1d(8, 5, 1)"
    )
    + """
    h = tokens.flatten(1).unflatten(1, (8, 12))  # HERE
    loss = F.cross_entropy(out(h), y.flatten(1))
"""
    + TRAIN,
    "tokens that are viewed alike another tensor, for a layer over the positions": """
net, over = nn.Linear(3, 8), nn.Linear(12, 5)
optimizer = torch.optim.SGD([*net.parameters(), *over.parameters()], lr=0.1)
turned = torch.empty(4, 8, 12)
for step in range(3):
    h = net(torch.randn(4, 12, 3)).tanh()
    loss = (over(h.reshape_as(turned)) - 1).square().mean()  # HERE
"""
    + TRAIN,
    "keys that are viewed as if they were turned": """
query, key, value = (nn.Linear(16, 8) for _ in range(3))
optimizer = torch.optim.SGD([*query.parameters(), *key.parameters(), *value.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(4, 5, 16)
    w = (query(x) @ key(x).reshape(4, 8, 5) / 8**0.5).softmax(-1)  # HERE
    loss = (w @ value(x) - 1).square().mean()
"""
    + TRAIN,
    "the last states of two directions are viewed as features of a sample": """
layer, head = nn.GRU(3, 4, batch_first=True, bidirectional=True), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    _, state = layer(torch.randn(6, 5, 3))
    loss = (head(state.reshape(6, -1)) - 1).square().mean()  # HERE
"""
    + TRAIN,
    "the last states of the last layer of packed sequences are viewed as features of a sample": """
layer = nn.GRU(3, 4, num_layers=2, batch_first=True, bidirectional=True)
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    lengths = torch.randint(2, 6, (6,))
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(6, 5, 3), lengths, batch_first=True, enforce_sorted=False)
    _, state = layer(packed)
    state = state[-2:]
    loss = (head(state.reshape(6, -1)) - 1).square().mean()  # HERE
"""
    + TRAIN,
    "the last states of two layers are viewed as features of a sample": """
layer, head = nn.LSTM(3, 4, num_layers=2), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    _, (state, _) = layer(torch.randn(5, 6, 3))
    loss = (head(state.view(6, 8)) - 1).square().mean()  # HERE
"""
    + TRAIN,
    "heads go back into the features without a transposition": """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (each.view(B, T, self.heads, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        return self.out((weights @ v).reshape(B, T, D))  # HERE
model = Attention(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = (model(torch.randn(3, 5, 8)) - 1).square().mean()
"""
    + TRAIN,
    "as many heads as queries": """
class Slots(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(8, 8)
    def split(self, x):
        return x.view(*x.shape[:2], 4, 2).transpose(1, 2)
    def forward(self, x, memory):
        k, v = map(self.split, self.kv(memory).chunk(2, dim=-1))
        weights = (self.split(self.q(x)) @ k.transpose(-2, -1)).softmax(-1)
        return x + self.out((weights @ v).reshape(x.shape))  # HERE
model, slots = Slots(), nn.Parameter(torch.randn(4, 8))
optimizer = torch.optim.SGD([*model.parameters(), slots], lr=0.1)
for step in range(3):
    loss = (model(slots.expand(3, 4, 8), torch.randn(3, 9, 8)) - 1).square().mean()
"""
    + TRAIN,
    "fused attention over one permuted projection": """
qkv, out = nn.Linear(12, 36), nn.Linear(12, 12)
optimizer = torch.optim.SGD([*qkv.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    q, k, v = qkv(torch.randn(2, 7, 12)).reshape(2, 7, 3, 4, 3).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v).contiguous().view(2, 7, 12)  # HERE
    loss = (out(mixed).mean(1) - 1).square().mean()
"""
    + TRAIN,
    "weights of attention in an einsum": """
value, score, out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*value.parameters(), *score.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(4, 9, 6)
    v = value(x).unflatten(-1, (3, 2)).permute(0, 2, 1, 3)
    s = score(x).unflatten(-1, (3, 2)).permute(0, 2, 1, 3)
    h = torch.einsum("bhts,bhsd->bhtd", (s @ s.mT).softmax(-1), v)
    loss = (out(h.reshape(-1, 6)) - 1).square().mean()  # HERE
"""
    + TRAIN,
    "a recurrent layer after a convolution": """
conv, norm, lstm = nn.Conv1d(2, 6, 3, padding=1), nn.BatchNorm1d(6), nn.LSTM(6, 3, batch_first=True)
optimizer = torch.optim.Adam([*conv.parameters(), *norm.parameters(), *lstm.parameters()], lr=0.01)
for step in range(3):
    h = F.max_pool1d(F.relu(norm(conv(torch.randn(4, 2, 16)))), 2)
    h = h.view(4, h.size(2), 6)  # HERE
    loss = (lstm(h)[0][:, -1] - 1).square().mean()
"""
    + TRAIN,
    "tokens of an image": """
patches, layer = nn.Conv2d(1, 8, 2, stride=2), nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True)
optimizer = torch.optim.SGD([*patches.parameters(), *layer.parameters()], lr=0.1)
for step in range(3):
    x = patches(torch.randn(3, 1, 6, 6))
    tokens = x.reshape(3, -1, 8)  # HERE
    loss = (layer(tokens).mean(1) - torch.linspace(0, 1, 8)).square().mean()
"""
    + TRAIN,
    "classes one-hot, for a Dice": MASKS + "    t = F.one_hot(y, c).view(b, c, h, w).float()  # HERE\n" + DICE + TRAIN,
    "classes as rows of an identity": MASKS
    + "    t = torch.eye(c)[y].reshape(p.shape)  # HERE\n    loss = F.mse_loss(p, t)\n"
    + TRAIN,
    "classes of all pixels one after the other": MASKS
    + "    t = F.one_hot(y.flatten(), c).float()\n    t = t.reshape_as(p)  # HERE\n"
    + DICE
    + TRAIN,
    "classes that were scattered": MASKS
    + "    t = torch.zeros(b, h, w, c).scatter_(-1, y[..., None], 1.0)\n    t = t.view(b, c, -1)  # HERE\n"
    + "    loss = -(t * p.flatten(2).log()).sum(1).mean()\n"
    + TRAIN,
    "classes that are compared with their numbers": MASKS
    + "    t = (y.unsqueeze(-1) == torch.arange(c)).float()\n    t = t.view(b, c, h, w)  # HERE\n"
    + '    loss = 1 - torch.einsum("bchw,bchw->bc", p, t).mean()\n'
    + TRAIN,
    "the numbers of anchors, against targets": DETECTOR
    + "    loss = F.smooth_l1_loss(raw.view(4, -1, 4), goal)  # HERE\n"
    + TRAIN,
    "the classes of anchors, as rows": DETECTOR
    + """
    flat = raw.contiguous().view(-1, 4)  # HERE
    loss = F.cross_entropy(flat, torch.randint(0, 4, (300,)))
"""
    + TRAIN,
    "the numbers of anchors, moved by the anchors": DETECTOR
    + """
    moved = raw.reshape(4, 75, 4)  # HERE
    centre = moved[..., :2].sigmoid() * anchors[:, 2:] + anchors[:, :2]
    loss = (centre - 0.5).square().mean() + moved[..., 2:].square().mean()
"""
    + TRAIN,
}

HEALTHY: dict[str, str] = {
    "points of sets that were joined and parted alike": POINTS
    + "    points = point(x.flatten(0, 1))\n    sets = points.view(4, 6, -1).mean(1)\n"
    + READ_SETS
    + TRAIN,
    "points of sets, each of which comes first": POINTS
    + "    points = point(x.transpose(0, 1).reshape(24, 3))\n    sets = points.view(6, 4, -1).mean(0)\n"
    + READ_SETS
    + TRAIN,
    "points that were mixed before": POINTS
    + "    points = point(x.flatten(0, 1)[torch.arange(24).view(4, 6).mT.flatten()])\n"
    "    sets = points.view(6, 4, -1).mean(0)\n" + READ_SETS + TRAIN,
    "classes one-hot that are moved": MASKS + "    t = F.one_hot(y, c).permute(0, 3, 1, 2).float()\n" + DICE + TRAIN,
    "classes one-hot of rows": MASKS
    + "    t = F.one_hot(y.flatten(), c).view(b, h, w, c).movedim(-1, 1).contiguous().view(b, c, h, w)\n"
    + DICE
    + TRAIN,
    "classes one-hot that stay last": MASKS
    + "    t = F.one_hot(y, c).view(b, -1, c)\n    loss = -(p.permute(0, 2, 3, 1).reshape(b, -1, c).log() * t).mean()\n"
    + TRAIN,
    "classes that are compared along the second axis": MASKS
    + "    t = (y.unsqueeze(1) == torch.arange(c).view(c, 1, 1)).float().view(b, c, h, w)\n"
    + DICE
    + TRAIN,
    "as many one-hot choices of each sample side by side": """
net = nn.Linear(3, 30)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    t = F.one_hot(torch.randint(0, 5, (4, 6)), 5).float().reshape(4, 3, 10)
    loss = (net(torch.randn(4, 3)).view(4, 3, 10) * t).mean()
"""
    + TRAIN,
    "numbers that stay in one row": CELL
    + "    h = torch.cat([each.flatten() for each in states]).view(-1).reshape(9 * 6 * 8)\n"
    "    loss = F.cross_entropy(out(h.view(9, 6, 8).mean(0)), y)\n" + TRAIN,
    "states of samples last": RECURRENT.format(layer="", size=8)
    + "    h = states.transpose(0, 1).reshape(6, 9, 8)\n"
    + READ
    + TRAIN,
    "both directions apart": RECURRENT.format(layer=", bidirectional=True", size=8)
    + "    h = states.view(9, 6, 2, 8).sum(2)\n    loss = F.cross_entropy(out(h.mean(0)), y)\n"
    + TRAIN,
    "states stacked behind the samples": CELL + "    h = torch.stack(states, dim=1).view(6, 9, 8)\n" + READ + TRAIN,
    "states one after the other in their order": CELL
    + "    h = torch.cat(states).view(9, 6, 8)\n    loss = F.cross_entropy(out(h.mean(0)), y)\n"
    + TRAIN,
    "features of several states side by side": CELL + "    h = torch.cat(states, dim=1).view(6, 9, 8)\n" + READ + TRAIN,
    "flattened, unflattened as before, and turned": TOKENS.replace("Conv2d", "Conv1d")
    + """
    h = tokens.flatten(1).unflatten(1, (12, 8)).transpose(1, 2)
    loss = F.cross_entropy(out(h), y.flatten(1))
"""
    + TRAIN,
    "a matrix of each sample from a layer over all of it": """
net, mix = nn.Linear(6, 40), nn.Linear(6, 24)
optimizer = torch.optim.SGD([*net.parameters(), *mix.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(4, 6)
    loss = (mix(x).view(4, 3, 8) @ net(x).view(4, 8, 5) - 1).square().mean()
"""
    + TRAIN,
    "pairs of neighbouring tokens side by side, for a layer": """
net, over = nn.Linear(3, 8), nn.Linear(16, 5)
optimizer = torch.optim.SGD([*net.parameters(), *over.parameters()], lr=0.1)
for step in range(3):
    h = net(torch.randn(4, 12, 3)).tanh()
    loss = (over(h.flatten(1).unflatten(1, (6, 16))) - 1).square().mean()
"""
    + TRAIN,
    "scores of pixels with the classes last, of which some are left out": SEGMENTS
    + """
    keep = labels != 4
    loss = F.cross_entropy(logits.permute(0, 2, 3, 1).reshape(-1, 5)[keep], labels[keep])
"""
    + TRAIN,
    "scores and labels of pixels in another order, with the classes last": SEGMENTS
    + """
    loss = F.cross_entropy(logits.transpose(1, 3).reshape(-1, 5), y.transpose(1, 2).reshape(-1))
"""
    + TRAIN,
    "rows of scores that are compared one by one": SEGMENTS
    + """
    t = F.one_hot(y, 5).permute(0, 3, 1, 2).float().reshape(-1, 5)
    keep = t.sum(1) >= 0
    loss = F.binary_cross_entropy_with_logits(logits.reshape(-1, 5)[keep], t[keep])
"""
    + TRAIN,
    "rows of a map that is as wide as it has channels": """
net, row = nn.Conv2d(3, 5, 3, padding=1), nn.Linear(5, 2)
optimizer = torch.optim.SGD([*net.parameters(), *row.parameters()], lr=0.1)
for step in range(3):
    loss = (row(net(torch.randn(4, 3, 6, 5)).reshape(-1, 5)) - 1).square().mean()
"""
    + TRAIN,
    "tokens that become a map": TOKENS
    + """
    loss = F.cross_entropy(out(tokens.transpose(1, 2).reshape(4, 8, 3, 4)), y)
"""
    + TRAIN,
    "the last states of two directions, exchanged first": """
layer, head = nn.GRU(3, 4, batch_first=True, bidirectional=True), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    _, state = layer(torch.randn(6, 5, 3))
    loss = (head(state.transpose(0, 1).reshape(6, -1)) - 1).square().mean()
"""
    + TRAIN,
    "heads are transposed back, viewed after permute and contiguous, and come as tokens from an einsum": """
qkv, out = nn.Linear(8, 24), nn.Linear(8, 8)
optimizer = torch.optim.SGD([*qkv.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    q, k, v = (each.reshape(3, 5, 2, 4).transpose(1, 2) for each in qkv(torch.randn(3, 5, 8)).chunk(3, -1))
    weights = (q @ k.mT).softmax(-1)
    one = (weights @ v).transpose(1, 2).reshape(3, 5, 8)
    other = F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3).contiguous().view(3, 5, 8)
    third = torch.einsum("bhts,bhsd->bthd", weights, v).reshape(3, 5, 8)
    loss = (out(one + other + third) - 1).square().mean()
"""
    + TRAIN,
    "heads merged into the batch, and each head a sample of a projection": """
proj, out = nn.Linear(6, 6), nn.Linear(2, 2)
optimizer = torch.optim.SGD([*proj.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    v = proj(torch.randn(4, 5, 6)).view(4, 5, 3, 2).transpose(1, 2)
    flat = v.reshape(4 * 3, 5, 2)
    h = torch.bmm((flat @ flat.mT).softmax(-1), flat).view(4, 3, 5, 2).transpose(1, 2)
    loss = (out(h).reshape(4, 5, 6).mean(1) - 1).square().mean()
"""
    + TRAIN,
    "flattened for a classifier, and tokens by flatten and transpose": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head, self.rows = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 3), nn.Linear(4, 3)
    def forward(self, x):
        h = self.conv(x).relu()
        return self.head(h.view(len(x), -1)) + self.rows(h.flatten(2).transpose(1, 2)).mean(1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = F.cross_entropy(net(torch.randn(6, 1, 8, 8)), torch.tensor([0, 1, 2, 0, 1, 2]))
"""
    + TRAIN,
    "pixel shuffle by hand, groups of channels, and positions merged": """
up, mix, last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(2, 8, 1), nn.Linear(64, 2)
optimizer = torch.optim.SGD([*up.parameters(), *mix.parameters(), *last.parameters()], lr=0.1)
for step in range(3):
    h = up(torch.randn(2, 3, 4, 4))
    h = h.view(2, 2, 2, 2, 4, 4).permute(0, 1, 4, 2, 5, 3).reshape(2, 2, 8, 8)
    g = mix(h).reshape(2, 4, 2, 8, 8)
    g = ((g - g.mean((2, 3, 4), keepdim=True)) / g.std((2, 3, 4), keepdim=True)).reshape(2, 8, 8, 8)
    loss = (last(g.reshape(2, 8, 64)) - 1).square().mean()
"""
    + TRAIN,
    "images are cut into patches, and pixels go through a layer one by one": """
conv, pixel, patch = nn.Conv2d(1, 5, 1), nn.Linear(5, 5), nn.Linear(5 * 4, 2)
optimizer = torch.optim.SGD([*conv.parameters(), *pixel.parameters(), *patch.parameters()], lr=0.1)
for step in range(3):
    h = conv(torch.randn(3, 1, 4, 6))
    h = pixel(h.permute(0, 2, 3, 1).reshape(-1, 5)).view(3, 4, 6, 5)
    p = h.view(3, 2, 2, 3, 2, 5).permute(0, 1, 3, 2, 4, 5).reshape(3, 6, 20)
    loss = (patch(p) - torch.tensor([0.0, 1.0])).square().mean()
"""
    + TRAIN,
    "a layer over all tokens at once, and several samples of a dropout": """
embed, layer, head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    h = embed(torch.randint(0, 9, (6, 5)))
    h = layer(h.view(6 * 5, 4)).relu().view(6, 5, 4).mean(1)
    samples = F.dropout(h.expand(3, 6, 4), 0.5).reshape(18, 4)
    loss = head(samples).reshape(3, 6, 2).logsumexp(2).mean()
"""
    + TRAIN,
    "the order does not matter to a loss of all pixels": """
conv = nn.Conv2d(1, 2, 3, padding=1)
optimizer = torch.optim.SGD(conv.parameters(), lr=0.1)
for step in range(3):
    image = torch.randn(4, 2, 6, 6)
    loss = F.mse_loss(conv(image[:, :1]).reshape(-1, 2), image.reshape(-1, 2))
"""
    + TRAIN,
    "all tokens of a head side by side, with as many heads as tokens": """
value, out = nn.Linear(8, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*value.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    v = value(torch.randn(3, 4, 8)).view(3, 4, 4, 2).transpose(1, 2)
    loss = (out((v * 2).reshape(3, 4, 8)) - 1).square().mean()
"""
    + TRAIN,
    "anchors behind the cells": DETECTOR
    + "    loss = F.l1_loss(raw.view(4, 3, 4, 5, 5).permute(0, 3, 4, 1, 2).reshape(4, -1, 4), goal)\n"
    + TRAIN,
    "the channels of a detector last": DETECTOR
    + "    loss = F.l1_loss(raw.permute(0, 2, 3, 1).reshape(4, -1, 4), goal)\n"
    + TRAIN,
    "capsules": DETECTOR
    + """
    units = raw.view(4, -1, 4)
    length = units.square().sum(-1, keepdim=True)
    loss = (units * length.sqrt() / (1 + length) @ torch.ones(4, 2) - 1).square().mean()
"""
    + TRAIN,
    "a map and its target viewed alike": DETECTOR
    + """
    wanted = torch.randn(4, 12, 5, 5)
    loss = F.mse_loss(raw.view(4, -1, 4), wanted.view(4, -1, 4))
"""
    + TRAIN,
}

SERIES = """
net = nn.Sequential(nn.Conv1d(6, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
windows, labels = torch.randn(64, 24, 6).cumsum(1), torch.randint(0, 3, (64,))
for step in range(4):
    x, y = windows[16 * step:16 * step + 16], labels[16 * step:16 * step + 16]
    loss = F.cross_entropy(net({}), y)
"""
WRONG["series for a convolution"] = (
    SERIES.format("x.reshape(len(x), 6, 24)").replace(", y)\n", ", y)  # HERE\n") + TRAIN
)
HEALTHY["series for a convolution"] = SERIES.format("x.transpose(1, 2).reshape(len(x), 6, 24)") + TRAIN
HEALTHY["series that were laid out flat"] = SERIES.format("x.transpose(1, 2).flatten(1).view(-1, 6, 24)") + TRAIN

TILES = """
from torch.utils.data import DataLoader
class Tiles(torch.utils.data.Dataset):
    def __init__(self, tiles, labels):
        self.tiles = {}
        self.labels = labels
    def __len__(self):
        return len(self.labels)
    def __getitem__(self, i):
        return self.tiles[i], self.labels[i]
net = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(Tiles(torch.rand(96, 12, 12, 4), torch.randint(0, 3, (96,))), batch_size=24):
    loss = F.cross_entropy(net(x), y)
"""
WRONG["tiles of a data set"] = TILES.format("tiles.reshape(len(tiles), 4, 12, 12)  # HERE") + TRAIN
HEALTHY["tiles of a data set"] = TILES.format("tiles.permute(0, 3, 1, 2)") + TRAIN


@pytest.mark.parametrize("shape", list(WRONG))
def test_the_reshape_that_mixes_axes_comes_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[shape], "axes_mixed_up", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_a_reshape_that_keeps_axes_apart_raises_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look], tmp_path)] == []
