"""Training that does exactly what was written, where what was written is not what was meant; and what looks like it and
is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ARRAY = """
import numpy as np
array = np.random.default_rng(0).normal(4, 1.7, (20, 3)).astype(np.float32)
parts = [torch.from_numpy(array[4 * i : 4 * i + 4]).clone() for i in range(5)]
means = [torch.zeros(3) for _ in range(5)]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for i in range(5):
{read}
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

WRONG: dict[tuple[str, str], str] = {
    ("result_discarded", "bounds of what a policy may do"): """
policy = nn.Linear(3, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(3):
    action = policy(torch.randn(8, 3))
    torch.clamp(action, -1, 1)  # HERE
    loss = action.square().mean()
"""
    + TRAIN,
    ("inverted_mask", "attention that is told which keys to show"): """
embed, query = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 4)
optimizer = torch.optim.SGD([*embed.parameters(), *query.parameters()], lr=0.1)
for step in range(3):
    tokens = torch.tensor([[3, 5, 2, 0], [1, 4, 0, 0]])
    h = embed(tokens) + torch.linspace(0.1, 1, 4)[:, None]
    pad = tokens == 0
    out = F.scaled_dot_product_attention(query(h), h, h, attn_mask=pad[:, None, :])  # HERE
    loss = (out[:, 0] - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "scores of an attention over tokens whose embedding does not say what pads them"): """
embed, query = nn.Embedding(9, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD([*embed.parameters(), *query.parameters()], lr=0.1)
for step in range(3):
    tokens = torch.tensor([[3, 5, 0, 0], [1, 4, 0, 0]])
    h = embed(tokens) + torch.linspace(0.1, 1, 4)[:, None]
    scores = (query(h) @ h.transpose(1, 2)).masked_fill((tokens != 0)[:, None, :], -1e9)  # HERE
    loss = ((scores.softmax(-1) @ h)[:, 0] - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "a position in front of tokens whose batch is chosen twice"): """
embed, query, first = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 4), nn.Parameter(torch.randn(1, 1, 4))
optimizer = torch.optim.SGD([*embed.parameters(), *query.parameters(), first], lr=0.1)
tokens = torch.randint(1, 9, (20, 5))
tokens[:, 4:] = 0
def real(ids):
    return (ids != 0).long()
for step in range(3):
    i = torch.randint(0, 20, (8,))
    mask = torch.cat([torch.ones(8, 1, dtype=torch.long), real(tokens[i])], 1)
    h = torch.cat([first.expand(8, 1, 4), embed(tokens[i])], 1)
    scores = (query(h) @ h.mT).masked_fill(mask.bool()[:, None], float("-inf"))  # HERE
    loss = ((scores.softmax(-1) @ h)[:, 0] - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "positions before the length are hidden"): """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    weights = score(h).squeeze(2).masked_fill(valid, -1e9).softmax(1)  # HERE
    loss = ((weights[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "the scores of positions before the length are replaced"): """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = torch.where(valid, -1e4, scores)  # HERE
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "the scores of positions behind the length are kept"): """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = scores.where(~valid, torch.tensor(-torch.inf))  # HERE
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "a mask of ones is subtracted"): """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = scores - 1e9 * valid.float()  # HERE
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "what is not valid gets nothing"): """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = scores + torch.logical_not(valid).float().log()  # HERE
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("inverted_mask", "scores are assigned"): """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    scores = score(h).squeeze(2)
    scores[torch.arange(6).sub(lengths[:, None]) < 0] = -1e9  # HERE
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    ("sequence_over_batch", "a cell that gets samples for frames, of shifted sequences"): """
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
data = torch.randn(40, 6, 3).cumsum(1)
for step in range(3):
    series = torch.randn(5, 7, 3).cumsum(1)
    x, y = series[:, :-1], series[:, 1:]
    h, outs = torch.zeros(6, 8), []
    for frame in x.unbind():  # HERE
        h = cell(frame, h)
        outs.append(h)
    loss = F.mse_loss(head(torch.stack(outs)), y)
"""
    + TRAIN,
    ("sequence_over_batch", "a cell that gets drawn samples by their numbers"): """
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
data = torch.randn(40, 6, 3).cumsum(1)
for step in range(3):
    x = data[torch.randperm(40)[:5]]
    y = x
    h, outs = torch.zeros(6, 8), []
    for t in range(len(x)):
        h = cell(x[t], h)  # HERE
        outs.append(h)
    loss = F.mse_loss(head(torch.stack(outs)), y)
"""
    + TRAIN,
    ("sequence_over_batch", "a layer over samples that were drawn"): """
layer, head = nn.GRU(3, 8), nn.Linear(8, 3)  # HERE
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
data = torch.randn(40, 6, 3).cumsum(1)
for step in range(3):
    x = data[torch.randint(0, 40, (5,))]
    loss = F.mse_loss(head(layer(x)[0]), x.roll(-1, 1))
"""
    + TRAIN,
    ("sequence_over_batch", "a transformer encoder without batch_first, averaged over the tokens"): """
encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)  # HERE
head = nn.Linear(8, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    h = encoder(torch.randn(6, 5, 8))
    loss = F.cross_entropy(head(h.mean(1)), torch.randint(0, 2, (6,)))
"""
    + TRAIN,
    ("shuffled_apart", "a regression whose targets are ordered anew in each epoch"): """
x, y = torch.randn(24, 4), torch.randn(24, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    order, other = torch.randperm(24), torch.randperm(24)
    for start in (0, 8, 16):
        inputs = x[order[start : start + 8]]
        targets = y[other[start : start + 8]]  # HERE
        loss = F.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ("batch_meets_last_axis", "importance weights of a batch of square images"): """
priority = torch.rand(20)
embed, net = nn.Embedding(20, 1), nn.Conv2d(1, 1, 3, padding=1)
optimizer = torch.optim.SGD([*embed.parameters(), *net.parameters()], lr=0.1)
for step in range(3):
    index, x = torch.randint(0, 20, (8,)), torch.randn(8, 1, 8, 8)
    error = (net(x + embed(index)[:, :, None, None]) - 1).square()
    loss = (error * priority[index].sqrt()).mean()  # HERE
"""
    + TRAIN,
    ("data_changed_again", "noise that adds up in the samples"): """
samples = torch.randn(10, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for i in range(0, 10, 2):
        x = samples[i : i + 2]
        x += 0.1 * torch.randn(2, 4)  # HERE
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ("data_changed_again", "windows of an array that are standardized in place"): ARRAY.format(
        read="        x = torch.from_numpy(array[4 * i : 4 * i + 4])\n        x -= 4.0  # HERE\n        x /= 1.7"
    ),
    ("data_changed_again", "parts of a tensor around an array"): ARRAY.format(
        read="        x = torch.as_tensor(array)[4 * i : 4 * i + 4].sub_(4.0)  # HERE"
    ),
    ("data_changed_again", "tensors of a list"): ARRAY.format(
        read="        x = parts[i]\n        x.sub_(4.0).div_(1.7)  # HERE"
    ),
    ("frozen_at_zero", "the last layer of a zero-initialized branch is frozen with its backbone"): """
class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.zero = nn.Linear(4, 4), nn.Linear(4, 4)
        nn.init.zeros_(self.zero.weight)
    def forward(self, x):
        return x + self.zero(self.body(x).relu())
branch, head = Branch(), nn.Linear(4, 1)
branch.requires_grad_(False)  # HERE
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(3):
    loss = head(branch(torch.randn(8, 4))).square().mean()
"""
    + TRAIN,
    ("frozen_at_zero", "one of two low-rank factors is frozen"): """
base, low, high = nn.Linear(4, 4), nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
nn.init.zeros_(high.weight)
base.requires_grad_(False)
high.requires_grad_(False)  # HERE
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD([*low.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    loss = head(base(x) + high(low(x))).square().mean()
"""
    + TRAIN,
    ("frozen_at_zero", "branches put in after a pretraining are frozen with what was trained"): """
body, head = nn.ModuleDict({"first": nn.Linear(4, 4)}), nn.Linear(4, 1)
def train(parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        loss = head(x + body["last"](body["first"](x)) if "last" in body else body["first"](x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train([*body.parameters(), *head.parameters()])
body["last"] = nn.Linear(4, 4)
nn.init.zeros_(body["last"].weight)
for parameter in body.parameters():
    parameter.requires_grad_(False)  # HERE
train(head.parameters())
""",
    ("average_wrong_way", "a soft update of the online network, with lerp_"): """
online = nn.Linear(4, 2)
target = copy.deepcopy(online)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    with torch.no_grad():
        goal = 0.9 * target(x).amax(1)
    loss = (online(x)[:, 0] - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for p, q in zip(online.parameters(), target.parameters()):
        p.data.lerp_(q.data, 0.05)  # HERE
""",
    ("average_wrong_way", "an average that is written back with copy_"): """
student = nn.Linear(4, 2)
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = (student(x) - teacher(x + 0.1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(student.parameters(), teacher.parameters()):
            p.copy_(0.9 * p + 0.1 * q)  # HERE
""",
    ("decay_of_wrong_group", "groups by name, the wrong way round"): """
model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1))
biases = [p for name, p in model.named_parameters() if name.endswith("bias") or name.startswith("1.")]
others = [p for name, p in model.named_parameters() if not (name.endswith("bias") or name.startswith("1."))]
groups = [{"params": others, "weight_decay": 0.0}, {"params": biases, "weight_decay": 0.1}]
optimizer = torch.optim.AdamW(groups, lr=0.01)  # HERE
for step in range(3):
    loss = model(torch.randn(8, 4)).square().mean()
"""
    + TRAIN,
    ("step_without_effect", "a warm-up that is stepped once in each epoch"): """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
for epoch in range(2):
    for batch in range(4):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    warmup.step()  # HERE
""",
    ("missing_zero_grad", "a gradient for an update by hand, on top of the one of the last step"): """
fast, slow = nn.Linear(3, 1), nn.Linear(3, 1)
inner = torch.optim.SGD(fast.parameters(), lr=0.1)
outer = torch.optim.SGD(slow.parameters(), lr=0.1)
for task in range(3):
    fast.load_state_dict(slow.state_dict())
    x = torch.randn(8, 3)
    inner.zero_grad()
    (fast(x) - 1).square().mean().backward()
    inner.step()
    (fast(x + 1) - 1).square().mean().backward()  # HERE
    for p, q in zip(slow.parameters(), fast.parameters()):
        p.grad = q.grad * 0.5
    outer.step()
""",
    ("sampled_without_gradient", "torch.normal() between encoder and decoder"): """
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(8, 6)
    mean, log_scale = encoder(x).chunk(2, dim=1)
    z = torch.normal(mean, log_scale.exp())  # HERE
    loss = (decoder(z) - x).square().mean() + (mean.square() + log_scale.exp() - log_scale).mean()
"""
    + TRAIN,
    ("routed_without_weight", "the better of two heads, with a bonus for uncertainty"): """
gate, heads = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 1) for _ in range(3))
optimizer = torch.optim.SGD([*gate.parameters(), *heads.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(16, 4)
    scores = gate(x)
    which = scores.topk(1, dim=1).indices.squeeze(1)  # HERE
    out = torch.zeros(16, 1)
    for i, head in enumerate(heads):
        rows = which == i
        out[rows] = head(x[rows])
    loss = (out - x[:, :1]).square().mean() - 0.01 * scores.std(0).mean()
"""
    + TRAIN,
    ("state_cut_each_step", "a layer that is called for one time step at a time"): """
layer, head = nn.GRU(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x, h = torch.randn(5, 16, 3), None
    for t in range(5):
        out, h = layer(x[t : t + 1], h)
        h = h.detach()  # HERE
    loss = (head(out[0]) - x[0, :, :1]).square().mean()
"""
    + TRAIN,
    ("copied_onto_itself", "a target network that is loaded from itself"): """
online = nn.Linear(4, 2)
target = copy.deepcopy(online)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    with torch.no_grad():
        goal = target(x).amax(1)
    loss = (online(x)[:, 0] - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target.load_state_dict(target.state_dict())  # HERE
""",
}

HEALTHY: dict[str, str] = {
    "a decay for learned bounds alone": """
model, bounds = nn.Linear(4, 2), [nn.Parameter(torch.tensor(0.1)) for _ in range(2)]
groups = [{"params": model.parameters()}, {"params": bounds, "weight_decay": 1e-3}]
optimizer = torch.optim.Adam(groups, lr=0.01)
for step in range(3):
    y = torch.stack([torch.minimum(each, bound) for each, bound in zip(model(torch.randn(8, 4)).relu().mT, bounds)])
    loss = (y - 1).square().mean()
"""
    + TRAIN,
    "an optimizer for each share of weights that is taken away": """
from torch.nn.utils import prune
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        x = torch.randn(8, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train()
for share in (0.2, 0.3):
    prune.l1_unstructured(model[0], "weight", amount=share)
    train()
""",
    "copies of windows of an array are standardized in place": ARRAY.format(
        read="        x = torch.tensor(array[4 * i : 4 * i + 4])\n        x -= 4.0\n        x /= 1.7"
    ),
    "what an array gives is standardized in place once": ARRAY.format(
        read="        x = torch.from_numpy(array[4 * i : 4 * i + 4])\n        x -= 4.0 * (epoch == 0)"
    ),
    "averages in a list": ARRAY.format(
        read="        means[i].mul_(0.9).add_(0.1 * model(parts[i]).detach().mean())\n        x = parts[i] - means[i]"
    ),
    "copies of tensors in a list": ARRAY.format(read="        x = parts[i].clone()\n        x.sub_(4.0).div_(1.7)"),
    "a cell that gets the frames of shifted sequences": """
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
data = torch.randn(40, 6, 3).cumsum(1)
for step in range(3):
    series = torch.randn(5, 7, 3).cumsum(1)
    x, y = series[:, :-1], series[:, 1:].transpose(0, 1)
    h, outs = torch.zeros(5, 8), []
    for frame in x.unbind(1):
        h = cell(frame, h)
        outs.append(h)
    loss = F.mse_loss(head(torch.stack(outs)), y)
"""
    + TRAIN,
    "a cell that gets the frames of drawn samples": """
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
data = torch.randn(40, 6, 3).cumsum(1)
for step in range(3):
    x = data[torch.randperm(40)[:5]].transpose(0, 1)
    y = x
    h, outs = torch.zeros(5, 8), []
    for t in range(len(x)):
        h = cell(x[t], h)
        outs.append(h)
    loss = F.mse_loss(head(torch.stack(outs)), y)
"""
    + TRAIN,
    "a layer over the frames of drawn samples": """
layer, head = nn.GRU(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
data = torch.randn(40, 6, 3).cumsum(1)
for step in range(3):
    x = data[torch.randint(0, 40, (5,))].permute(1, 0, 2)
    loss = F.mse_loss(head(layer(x)[0]), x.roll(-1, 0))
"""
    + TRAIN,
    "scores of what is real are kept by where()": """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = torch.where(valid, scores, -1e4)
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    "ones less the mask of what is real, many times": """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = scores - 1e9 * (1 - valid.float())
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    "the mask of what is real less one, many times": """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = scores + (valid.float() - 1) * 1e9
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    "scores behind the length are assigned": """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    scores = score(h).squeeze(2)
    scores[torch.arange(6).sub(lengths[:, None]) >= 0] = -1e9
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    "a term that hides nothing": """
score = nn.Linear(4, 1)
optimizer = torch.optim.SGD(score.parameters(), lr=0.1)
for step in range(3):
    h, lengths = torch.randn(5, 6, 4), torch.randint(2, 6, (5,))
    valid = torch.arange(6)[None, :] < lengths[:, None]
    scores = score(h).squeeze(2)
    scores = scores + 0.5 * valid
    loss = ((scores.softmax(1)[..., None] * h).sum(1) - 1).square().mean()
"""
    + TRAIN,
    "statements whose result is not needed": """
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    h = model(torch.randn(8, 4))
    h.retain_grad()
    h.register_hook(lambda grad: grad)
    h.clamp_(max=2)
    model.to("cpu")
    assert h.detach().isfinite().all()
    loss = torch.stack([
        h.square().mean(),
        h.abs().mean()
    ]).sum()
"""
    + TRAIN,
    "a first pass that only tries the shapes, and results that are printed": """
model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 1))
model(torch.randn(2, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    out = model(torch.randn(8, 5))
    print(out.detach().softmax(0).shape)
    loss = out.square().mean()
"""
    + TRAIN,
    "masks that are the right way round, for each of the conventions": """
embed = nn.Embedding(9, 4, padding_idx=0)
attention = nn.MultiheadAttention(4, 2, batch_first=True)
optimizer = torch.optim.SGD([*embed.parameters(), *attention.parameters()], lr=0.1)
for step in range(3):
    tokens = torch.tensor([[3, 5, 2, 0], [1, 4, 0, 0]])
    h, pad, keep = embed(tokens), tokens == 0, tokens != 0
    a, _ = attention(h, h, h, key_padding_mask=~keep)
    b = F.scaled_dot_product_attention(a, h, h, attn_mask=keep[:, None, :])
    c = (a @ h.transpose(1, 2)).masked_fill(pad[:, None, :], -1e9).softmax(-1) @ h
    d = (a @ h.transpose(1, 2)).masked_fill(keep[:, None, :] == 0, float("-inf")).softmax(-1) @ h
    longest = torch.arange(4)[None] >= keep.sum(1)[:, None]
    e = a.masked_fill(longest[..., None], -1e9).amax(1)
    loss = ((b + c + d) * keep[..., None]).square().mean() + e.square().mean()
"""
    + TRAIN,
    "masks of another kind: legal actions, masked tokens, pixels": """
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x, board = torch.randn(6, 4), torch.randint(0, 2, (6, 4))
    board[:, 0] = 0
    logits = net(x).masked_fill(board != 0, float("-inf"))
    loss = -logits.log_softmax(1)[:, 0].mean() + net(x).masked_fill(x < 0, 0).square().mean()
"""
    + TRAIN,
    "moves that an embedded board allows, and kinds that no embedding knows": """
embed, net = nn.Embedding(3, 8), nn.Linear(9 * 8, 9)
optimizer = torch.optim.SGD([*embed.parameters(), *net.parameters()], lr=0.1)
for step in range(3):
    board, kinds = torch.randint(0, 3, (6, 9)), torch.randint(0, 3, (6, 9))
    board[:, 0] = kinds[:, 0] = 0
    scores = net(embed(board).flatten(1))
    loss = -scores.masked_fill(board != 0, float("-inf")).log_softmax(1)[:, 0].mean()
    loss = loss - scores.masked_fill(torch.ne(kinds, other=0), float("-inf")).log_softmax(1)[:, 0].mean()
"""
    + TRAIN,
    "recurrent layers along the first axis, which is time": """
lstm, head = nn.LSTM(3, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(16, 5, 3)
    out, (h, _) = lstm(x.transpose(0, 1))
    steps, _ = lstm(torch.randn(7, 16, 3))
    loss = F.cross_entropy(head(out[-1]), torch.randint(0, 2, (16,))) + F.cross_entropy(
        head(steps).flatten(0, 1), torch.randint(0, 2, (7 * 16,))
    ) + head(steps.mean(0)).square().mean()
    print(steps[:, 0].detach().mean().item())
"""
    + TRAIN,
    "a transformer that has its own axes, and one sequence at a time": """
first = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
second = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
gru = nn.GRU(8, 8)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters(), *gru.parameters()], lr=0.1)
for step in range(3):
    h = second(first(torch.randn(6, 5, 8)).transpose(0, 1))
    alone, _ = gru(torch.randn(9, 1, 8))
    loss = h[0].square().mean() + h.mean(0).square().mean() + alone[:, 0].square().mean()
"""
    + TRAIN,
    "one order for inputs and labels, mixup, and samples of two sets that are no pairs": """
x, y, other = torch.randn(24, 4), torch.randint(0, 2, (24,)), torch.randn(24, 4)
model, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
for epoch in range(2):
    order = torch.randperm(24)
    for index in order.split(8):
        inputs, labels = x[index], y[index]
        mix = torch.randperm(8)
        mixed = model(0.7 * inputs + 0.3 * inputs[mix])
        unpaired = critic(other[torch.randperm(24)[:8]])
        loss = 0.7 * F.cross_entropy(mixed, labels) + 0.3 * F.cross_entropy(mixed, labels[mix])
        loss = loss + F.softplus(unpaired).mean() + F.softplus(-critic(inputs)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "random labels on purpose, and negatives that are shuffled": """
x, y = torch.randn(24, 4), torch.randint(0, 2, (24,))
y = y[torch.randperm(24)]
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    index = torch.randperm(24)
    negatives = model(x[index][torch.randperm(24)])
    loss = F.cross_entropy(model(x[index]), y[index]) + F.mse_loss(model(x), negatives.detach())
"""
    + TRAIN,
    "values that are broadcast along the last axis on purpose": """
scale, table = torch.rand(8), torch.rand(20)
channels = torch.randperm(20)[:8]
embed, net = nn.Embedding(20, 8), nn.Linear(8, 8)
optimizer = torch.optim.SGD([*embed.parameters(), *net.parameters()], lr=0.1)
for step in range(3):
    x, t = torch.randn(8, 4, 8), torch.randint(0, 20, (8,))
    y = net(x * scale + table[channels]) + embed(t)[:, None]
    loss = (table[t].view(-1, 1, 1) * y).square().mean()
"""
    + TRAIN,
    "memory that is changed on purpose: a simulation, a buffer, one pass over the data": """
data = torch.randn(12, 4)
for row in data:
    row -= row.mean()
    row /= row.std()
state, ring, filled = torch.zeros(6, 4), torch.zeros(20, 4), 0
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    state[step % 6] += 0.1 * torch.randn(4)
    ring[filled % 20] = state.mean(0)
    filled += 1
    x = data[step % 3 * 4 : step % 3 * 4 + 4].clone()
    x += 0.1 * torch.randn(4, 4)
    batch = torch.stack([data[i] for i in range(4)])
    batch *= 2
    loss = model(x).square().mean() + model(state).square().mean() + model(batch).square().mean()
"""
    + TRAIN,
    "adapters that start at zero, and a frozen copy of them as a reference": """
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4).requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.zeros(4, 2))
    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()
policy = Adapter()
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.SGD([policy.a, policy.b], lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    with torch.no_grad():
        before = reference(x)
    out = policy(x)
    loss = (out - before).square().mean() + out.square().mean()
"""
    + TRAIN,
    "averages that go the right way, an anchor, and weights that are pulled to it": """
online = nn.Linear(4, 2)
target, start = copy.deepcopy(online).requires_grad_(False), copy.deepcopy(online)
anchor = [p.detach().clone() for p in online.parameters()]
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    loss = (online(x) - target(x + 0.1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q, a, s in zip(online.parameters(), target.parameters(), anchor, start.parameters()):
            q.mul_(0.9).add_(p, alpha=0.1)
            p.lerp_(a, 0.01)
            if step == 2:
                p.mul_(0.8).add_(s, alpha=0.2)
""",
    "lookahead: fast weights start again from slow ones, which follow them": """
fast = nn.Linear(4, 2)
slow = copy.deepcopy(fast)
optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
for step in range(6):
    loss = (fast(torch.randn(8, 4)) - slow(torch.randn(8, 4)).detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 2:
        with torch.no_grad():
            for p, q in zip(fast.parameters(), slow.parameters()):
                q.add_(p - q, alpha=0.5)
                p.copy_(q)
""",
    "weight decay as usual, for biases of a tuned norm only, and for all": """
model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1))
matrices = [p for p in model.parameters() if p.ndim > 1]
vectors = [p for p in model.parameters() if p.ndim < 2]
usual = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(usual, lr=0.01)
norm = nn.LayerNorm(4)
other = torch.optim.AdamW([{"params": [norm.weight, norm.bias], "weight_decay": 0.1}], lr=0.01)
for step in range(3):
    other.zero_grad()
    loss = model(norm(torch.randn(8, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    other.step()
""",
    "a warm-up from 0 in each step, and a backbone that rests at first": """
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([{"params": body.parameters()}, {"params": head.parameters()}], lr=0.1)
rates = [lambda step: 0.0 if step < 4 else 1.0, lambda step: min(1.0, step / 3)]
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rates)
for step in range(9):
    loss = head(body(torch.randn(8, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
""",
    "gradients that are read after they were cleared, or measured, or added up without a step": """
model, other = nn.Linear(3, 1), nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = [torch.zeros_like(p) for p in model.parameters()]
for step in range(4):
    optimizer.zero_grad()
    for part in range(2):
        (model(torch.randn(8, 3)) - 1).square().mean().backward()
    print(sum(p.grad.norm().item() for p in model.parameters()))
    for p, sum_ in zip(model.parameters(), total):
        sum_ += p.grad
        p.grad = p.grad * 0.5
    optimizer.step()
""",
    "experts whose results are weighed, and a head that is chosen by a class that has labels": """
gate, experts = nn.Linear(4, 2), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
classes, masks = nn.Linear(4, 2), nn.ModuleList(nn.Linear(4, 1) for _ in range(2))
parameters = [*gate.parameters(), *experts.parameters(), *classes.parameters(), *masks.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(3):
    x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    gates = gate(x).softmax(1)
    choice, out = gates.argmax(1), torch.zeros_like(x)
    logits = classes(x)
    kind, mask = logits.argmax(1), torch.zeros(16, 1)
    for i in range(2):
        out[choice == i] = experts[i](x[choice == i])
        mask[kind == i] = masks[i](x[kind == i])
    out = out * gates.gather(1, choice[:, None])
    loss = (out - x).square().mean() + 0.01 * gates.mean(0).square().sum()
    loss = loss + F.cross_entropy(logits, y) + (mask - 1).square().mean()
"""
    + TRAIN,
    "states that are cut off between sequences, and with a loss at each time step": """
cell, layer, head = nn.GRUCell(3, 8), nn.GRU(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *layer.parameters(), *head.parameters()], lr=0.1)
carried = torch.zeros(1, 16, 8)
for step in range(4):
    x, h = torch.randn(4, 16, 3), torch.zeros(16, 8)
    loss = 0
    for t in range(4):
        h = cell(x[t], h.detach())
        loss = loss + head(h).square().mean()
    out, carried = layer(x[:1], carried.detach())
    loss = loss + head(out[0]).square().mean()
"""
    + TRAIN,
    "actions that are drawn with torch.normal() for a score function, and noise": """
policy, value = nn.Linear(3, 2), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=0.01)
for step in range(3):
    state = torch.randn(8, 3)
    mean = policy(state)
    action = torch.normal(mean, 1.0)
    reward = -action.detach().square().sum(1)
    log_probability = -(action - mean).square().sum(1) / 2
    loss = -(log_probability * reward).mean() + value(state + torch.normal(0.0, 0.1, (8, 3))).square().mean()
"""
    + TRAIN,
}


@pytest.mark.parametrize(("cause", "shape"), list(WRONG))
def test_the_cause_and_its_line_come_first(cause: str, shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[cause, shape], cause, tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_what_only_looks_like_it_raises_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look], tmp_path)] == []


FROZEN_NORMALIZATION = """
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        self.adapter = nn.Linear(4, 2)
    def forward(self, x):
        return self.base(x) + self.adapter(x)
model = Adapted()
model.base.requires_grad_({trained})
model.eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = (torch.randn(8, 4) @ model.adapter.weight.t()).detach() @ torch.randn(2, 4)
    x = x + 0 * model.adapter(x).sum()
    loss = F.cross_entropy(model(x), torch.randint(0, 2, (8,)))
"""


@pytest.mark.parametrize("trained", [True, False])
def test_a_frozen_normalization_is_in_evaluation_mode_on_purpose(*, trained: bool, tmp_path: Path) -> None:
    found = {each.cause for each in alarms(HEAD + FROZEN_NORMALIZATION.format(trained=trained) + TRAIN, tmp_path)}
    assert ("evaluation_mode" in found) == trained


FROZEN_BASE = """
base = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6), nn.Dropout(0.5))
head = nn.Linear(6, 2)
base.requires_grad_(False)
model = nn.Sequential(base, head)
model.eval()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
adapter = nn.Parameter(torch.zeros(4))
optimizer.add_param_group({{"params": [adapter]}})
{before}
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(8, 4) * (1 + adapter)), torch.randint(0, 2, (8,)))
"""


@pytest.mark.parametrize("is_evaluated", [False, True])
def test_adapters_may_be_trained_without_dropout_where_nothing_was_evaluated_before(
    *, is_evaluated: bool, tmp_path: Path
) -> None:
    before = "with torch.no_grad():\n    print(model(torch.randn(8, 4)).mean())" if is_evaluated else ""
    found = {each.cause for each in alarms(HEAD + FROZEN_BASE.format(before=before) + TRAIN, tmp_path)}
    assert ("evaluation_mode" in found) == is_evaluated


HELD_BASE = """
class Prefixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 6)).requires_grad_(False)
        self.prefix = nn.Parameter(torch.zeros(4))
        self.head = nn.Linear(6, 2)
{own}
    def forward(self, x):
        return self.head(self.base(x + self.prefix))

model = Prefixed()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for epoch in range(3):
    {begin}
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(model(torch.randn(8, 4)).mean())
"""
OWN_TRAIN = """
    def train(self, mode=True):
        super().train(mode)
        self.base.eval()
        return self
"""


@pytest.mark.parametrize(
    ("own", "begin", "is_told"),
    [
        (OWN_TRAIN, "model.train()", False),
        ("", "model.train()\n    model.base.eval()", False),
        ("", "model.train() if epoch == 0 else None", True),
    ],
    ids=["its own train", "put back at once", "train forgotten"],
)
def test_a_frozen_part_may_be_held_in_evaluation_mode(own: str, begin: str, *, is_told: bool, tmp_path: Path) -> None:
    found = {each.cause for each in alarms(HEAD + HELD_BASE.format(own=own, begin=begin), tmp_path)}
    assert found == ({"evaluation_mode"} if is_told else set())


REWARDS = """
rewards = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 1))
policy = nn.Linear(3, 4)
first = torch.optim.SGD(rewards.parameters(), lr=0.1)
for step in range(3):
    loss = rewards(torch.randn(8, 4)).square().mean()
    first.zero_grad()
    loss.backward()
    first.step()
rewards.eval()
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
with torch.no_grad():
    print(rewards(policy(torch.randn(8, 3))).mean())
for step in range(3):
    loss = -rewards(policy(torch.randn(8, 3))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("stays", [True, False])
def test_a_gradient_may_go_through_another_model_in_evaluation_mode(*, stays: bool, tmp_path: Path) -> None:
    held = "optimizer = torch.optim.SGD([*policy.parameters(), *rewards.parameters()], lr=0.1)\n"
    script = REWARDS if stays else REWARDS.replace("optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)\n", held)
    found = {each.cause for each in alarms(HEAD + script, tmp_path)}
    assert ("evaluation_mode" in found) == (not stays)


DROPOUT_OFF = """
model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.1), nn.Linear(6, 2))
model.eval()  # {comment}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
"""


@pytest.mark.parametrize(
    ("comment", "is_told"),
    [
        ("no dropout from here on, as is usual for preferences", False),
        ("dropout off for the validation", True),
        ("no gradients are needed here", True),
    ],
)
def test_a_comment_may_say_that_training_is_to_have_no_dropout(comment: str, *, is_told: bool, tmp_path: Path) -> None:
    found = {each.cause for each in alarms(HEAD + DROPOUT_OFF.format(comment=comment) + TRAIN, tmp_path)}
    assert ("evaluation_mode" in found) == is_told
