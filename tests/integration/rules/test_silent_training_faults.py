"""Training that goes on without an error and learns something else than was meant; and what looks like it and is right.

Targets that are the inputs, parameters in two optimizers, schedules that go up again, rows of padding, banks of
negatives, averages with swapped factors, constants in residuals, and values for each row of a square matrix.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

STREAM = """
stream = torch.randint(0, 9, (60,))
def batch(length, shift):
    starts = torch.randint(0, 40, (4,)).tolist()
    x = torch.stack([stream[i : i + length] for i in starts])
    return x, torch.stack([stream[i + shift : i + shift + length] for i in starts])
"""
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(9, 8), nn.Linear(8, 24), nn.Linear(8, 9)
    def forward(self, x, causal=True):
        h = self.embed(x)
        q, k, v = self.mix(h).chunk(3, -1)
        scores = q @ k.transpose(1, 2)
        if causal:
            mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
            scores = scores.masked_fill(mask, float("-inf"))
        return self.head(h + scores.softmax(-1) @ v)
model = Block()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
ENCODERS = """
query = nn.Linear(6, 4)
key = copy.deepcopy(query).requires_grad_(False)
bank = F.normalize(torch.randn(16, 4), dim=1)
optimizer = torch.optim.SGD(query.parameters(), lr=0.1)
"""

WRONG: dict[tuple[str, str], str] = {
    ("targets_are_inputs", "attention with a mask, logits with the classes second"): STREAM
    + BLOCK
    + """
for step in range(3):
    x, _ = batch(6, 1)
    y = x.clone()  # HERE
    loss = F.cross_entropy(model(x).transpose(1, 2), y)
"""
    + TRAIN,
    ("targets_are_inputs", "one-hot vectors into a recurrent layer, log-probabilities"): STREAM
    + """
layer, head = nn.LSTM(9, 8), nn.Linear(8, 9)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x, _ = batch(6, 1)
    out, _ = layer(F.one_hot(x.t(), 9).float())
    loss = F.nll_loss(head(out).log_softmax(-1).flatten(0, 1), x.t().reshape(-1))  # HERE
"""
    + TRAIN,
    ("create_graph_missing", "one derivative of a residual, which a loss function compares"): """
field = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(field.parameters(), lr=0.01)
for step in range(3):
    x = torch.rand(16, 1, requires_grad=True)
    u = field(x)
    du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), x, retain_graph=True)[0]  # HERE
    loss = F.mse_loss(0.1 * ddu - du, u) + (field(torch.zeros(1, 1)) - 1).square().sum()
"""
    + TRAIN,
    ("create_graph_missing", "a second derivative that a learned coefficient multiplies"): """
field, rate = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Parameter(torch.zeros(()))
optimizer = torch.optim.SGD([*field.parameters(), rate], lr=0.01)
for step in range(3):
    x, t = torch.rand(16, requires_grad=True), torch.rand(16, requires_grad=True)
    u = field(torch.stack([x, t], -1))
    du, dt = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (ddu,) = torch.autograd.grad(du.sum(), x, retain_graph=True)  # HERE
    loss = (dt - rate.exp() * ddu).square().mean() + (field(torch.zeros(1, 2)) - 1).square().sum()
"""
    + TRAIN,
    ("two_optimizers", "a critic of Wasserstein's kind that gets the generator as a group"): """
make, judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), nn.Linear(2, 1)
for_make = torch.optim.RMSprop(make.parameters(), lr=1e-3)
groups = [{"params": judge.parameters()}, {"params": make.parameters(), "lr": 1e-3}]
for_judge = torch.optim.RMSprop(groups, lr=1e-3)  # HERE
for step in range(6):
    for_judge.zero_grad()
    (judge(make(torch.randn(16, 4))).mean() - judge(torch.randn(16, 2)).mean()).backward()
    for_judge.step()
    if step % 2:
        for_make.zero_grad()
        (-judge(make(torch.randn(16, 4))).mean()).backward()
        for_make.step()
""",
    ("two_optimizers", "a shared body, both steps after one backward"): """
body, one, two = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
first = torch.optim.SGD([*body.parameters(), *one.parameters()], lr=0.1)
second = torch.optim.SGD([*body.parameters(), *two.parameters()], lr=0.1)  # HERE
for step in range(5):
    h = body(torch.randn(8, 4))
    loss = (one(h) - 1).square().mean() + (two(h) + 1).square().mean()
    first.zero_grad()
    second.zero_grad()
    loss.backward()
    first.step()
    second.step()
""",
    ("batch_meets_last_axis", "times of a flow, which the model gets as a column"): """
net = nn.Linear(9, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    noise, x, t = torch.randn(8, 8), torch.randn(8, 8), torch.rand(8)
    xt = (1 - t) * noise + t * x  # HERE
    loss = (net(torch.cat([xt, t[:, None]], 1)) - (x - noise)).square().mean()
"""
    + TRAIN,
    ("batch_meets_last_axis", "levels of noise that an embedding adds to the rows"): """
levels = torch.linspace(0.1, 0.9, 20)
embed, net = nn.Embedding(20, 16), nn.Linear(8, 16)
head = nn.Linear(16, 8)
optimizer = torch.optim.SGD([*embed.parameters(), *net.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    x, t = torch.randn(8, 8), torch.randint(0, 20, (8,))
    noise = torch.randn_like(x)
    noisy = x + levels[t].sqrt() * noise  # HERE
    loss = (head((net(noisy) + embed(t)).relu()) - noise).square().mean()
"""
    + TRAIN,
    ("average_wrong_way", "a target network that takes nearly everything, with lerp_"): """
online = nn.Linear(4, 2)
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    loss = (online(x)[:, 0] - 0.9 * target(x).amax(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(online.parameters(), target.parameters()):
            q.lerp_(p, 0.995)  # HERE
""",
    ("average_wrong_way", "a target network that takes nearly everything, with copy_ of a sum"): """
online = nn.Linear(4, 2)
target = copy.deepcopy(online)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
tau = 0.01
for step in range(4):
    x = torch.randn(8, 4)
    with torch.no_grad():
        goal = 0.9 * target(x).amax(1)
    loss = (online(x)[:, 0] - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for p, q in zip(online.parameters(), target.parameters()):
        q.data.copy_(tau * q.data + (1.0 - tau) * p.data)  # HERE
""",
    ("average_wrong_way", "a teacher that is mixed into the student, beside labels"): """
student = nn.Linear(4, 2)
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    loss = F.cross_entropy(student(x), y) + 0.5 * (student(x) - teacher(x + 0.1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(student.parameters(), teacher.parameters()):
            p.mul_(0.99).add_(q, alpha=0.01)  # HERE
""",
    ("detached", "fast weights of a meta step that begin at detached ones"): """
slow = nn.Linear(1, 1)
optimizer = torch.optim.SGD(slow.parameters(), lr=0.1)
for task in range(3):
    fast = [p.detach().clone().requires_grad_() for p in slow.parameters()]  # HERE
    x = torch.randn(8, 1)
    inner = (F.linear(x, *fast) - 2 * x).square().mean()
    fast = [w - 0.1 * g for w, g in zip(fast, torch.autograd.grad(inner, fast, create_graph=True))]
    loss = (F.linear(x + 1, *fast) - 2 * (x + 1)).square().mean()
"""
    + TRAIN,
    ("schedule_repeats", "a cosine by hand that counts batches as epochs"): """
import math
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
cosine = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 0.5 * (1 + math.cos(math.pi * e / 5)))
for epoch in range(5):
    for batch in range(6):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cosine.step()  # HERE
""",
    ("schedule_repeats", "a progress in batches over steps, with a floor, set by a function"): """
import math
def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate
def cosine(progress):
    return 0.01 + 0.09 * 0.5 * (1 + math.cos(math.pi * progress))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(80):
    loss = model(torch.randn(8, 4)).square().mean() / 3
    loss.backward()
    if batch % 3 == 2:
        set_rate(optimizer, cosine(batch / 20))  # HERE
        optimizer.step()
        optimizer.zero_grad()
""",
    ("unused_parameter", "generated weights are copied into the data of a layer"): """
maker, layer, head = nn.Linear(3, 8), nn.Linear(4, 2, bias=False), nn.Linear(2, 1)
optimizer = torch.optim.SGD([*maker.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    weight = maker(torch.randn(3)).view(2, 4)
    layer.weight.data.copy_(weight)  # HERE
    loss = head(layer(torch.randn(8, 4)).tanh()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        layer.weight.data.copy_(maker(torch.ones(3)).view(2, 4))
""",
    ("targets_are_inputs", "a decoder gets its own target beside a source that is as long"): """
source, target = nn.Embedding(9, 8), nn.Embedding(9, 8)
encoder, decoder, out = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 9)
modules = nn.ModuleList([source, target, encoder, decoder, out])
optimizer = torch.optim.SGD(modules.parameters(), lr=0.1)
for step in range(3):
    x = torch.randint(0, 9, (4, 6))
    y = x.flip(1)
    logits = out(decoder(target(y), encoder(source(x))[1])[0])
    loss = F.cross_entropy(logits.reshape(-1, 9), y.reshape(-1))  # HERE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ("warmup_never_ends", "a warm-up and a cosine in steps, stepped for each epoch"): """
import math
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
x = torch.randn(60, 4)
def factor(step, warm=20, total=40):
    return (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))
sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
for epoch in range(4):
    for batch in x.split(6):
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()  # HERE
""",
    ("steps_from_the_start", "named weights of a network, from the same dictionary"): """
net = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for task in range(3):
    x = torch.randn(8, 1)
    weights = dict(net.named_parameters())
    fast = dict(weights)
    for step in range(3):
        inner = (torch.func.functional_call(net, fast, (x,)) - 2 * x).square().mean()
        grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
        fast = {name: w - 0.1 * g.clamp(-1, 1) for (name, w), g in zip(weights.items(), grads)}  # HERE
    loss = (torch.func.functional_call(net, fast, (x + 1,)) - 2 * x - 2).square().mean()
"""
    + TRAIN,
    ("padding_row_used", "items of a factorization, with biases"): """
user, item, bias = nn.Embedding(9, 4), nn.Embedding(6, 4, padding_idx=0), nn.Embedding(6, 1)  # HERE
optimizer = torch.optim.SGD([*user.parameters(), *item.parameters(), *bias.parameters()], lr=0.1)
users, items, ratings = torch.randint(0, 9, (120,)), torch.randint(0, 6, (120,)), torch.rand(120)
for index in torch.randperm(120).split(30):
    u, i = users[index], items[index]
    loss = ((user(u) * item(i)).sum(1) + bias(i).squeeze(1) - ratings[index]).square().mean()
"""
    + TRAIN,
    ("positive_among_negatives", "a queue of columns, filled with copy_, products with einsum"): ENCODERS.replace(
        "(16, 4), dim=1)", "(4, 16), dim=0)"
    )
    + """
for step in range(4):
    x = torch.randn(4, 6)
    q, k = F.normalize(query(x), dim=1), F.normalize(key(x + 0.1), dim=1).detach()
    bank[:, step * 4 : step * 4 + 4] = k.T  # HERE
    positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
    negative = torch.einsum("nc,ck->nk", q, bank.clone().detach())
    logits = torch.cat([positive, negative], dim=1) / 0.1
    loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long))
"""
    + TRAIN,
    ("divergence_maximized", "minus a divergence that has the right sign already"): """
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(8, 6)
    mu, logvar = encoder(x).chunk(2, 1)
    z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
    kl = -0.5 * torch.sum(1 + logvar - mu**2 - torch.exp(logvar)) / 8  # HERE
    loss = F.mse_loss(decoder(z), x) - 0.1 * kl
"""
    + TRAIN,
}

HEALTHY: dict[str, str] = {
    "inner steps, each from the last one": """
w = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([w], lr=0.01)
for task in range(3):
    x, fast = torch.randn(8, 2), w
    for step in range(4):
        (g,) = torch.autograd.grad((x @ fast - x.sum(1)).square().mean(), fast, create_graph=True)
        fast = fast - 0.1 * g
    loss = (x @ fast - x.sum(1)).square().mean()
"""
    + TRAIN,
    "extragradient: a look ahead, and a step from where it began": """
w = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([w], lr=0.01)
head = nn.Linear(2, 1)
for task in range(4):
    x, at = torch.randn(8, 2), w
    for step in range(2):
        (g,) = torch.autograd.grad((x @ at - x.sum(1)).square().mean(), at, create_graph=True)
        at = w - 0.1 * g
    loss = (x @ at - x.sum(1)).square().mean()
"""
    + TRAIN,
    "attacks that begin anew for each batch, and gradients of two losses of one tensor": """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for task in range(3):
    x = torch.randn(8, 2)
    attacked = (x + 0.01 * torch.randn(8, 2)).requires_grad_()
    for step in range(3):
        (g,) = torch.autograd.grad(model(attacked).square().mean(), attacked)
        attacked = (attacked + 0.1 * g.sign()).detach().requires_grad_()
    moved = x.clone().requires_grad_()
    for power in (1, 2, 3):
        (g,) = torch.autograd.grad(model(moved).abs().pow(power).mean(), moved)
        x = x - 0.01 * g
    loss = model(attacked.detach()).square().mean() + model(x).square().mean()
"""
    + TRAIN,
    "a warm-up of epochs that ends, a decay for each epoch, and a warm-up of steps in a short run": """
first, second, third = (nn.Linear(4, 1) for _ in range(3))
made = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (first, second, third)]
schedules = [
    torch.optim.lr_scheduler.LinearLR(made[0], start_factor=0.1, total_iters=2),
    torch.optim.lr_scheduler.StepLR(made[1], step_size=1, gamma=0.1),
]
warm = torch.optim.lr_scheduler.LambdaLR(made[2], lambda step: min(1.0, (step + 1) / 200))
for epoch in range(4):
    for batch in torch.randn(30, 4).split(5):
        for model, optimizer in zip((first, second, third), made):
            optimizer.zero_grad()
            (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
        warm.step()
    for schedule in schedules:
        schedule.step()
""",
    "targets that are shifted, and a slice of the logits": STREAM
    + BLOCK
    + """
for step in range(3):
    x, y = batch(6, 1)
    tokens, _ = batch(7, 1)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss = loss + F.cross_entropy(model(tokens)[:, :-1].reshape(-1, 9), tokens[:, 1:].reshape(-1))
"""
    + TRAIN,
    "words that are masked, and only those are asked for": STREAM
    + BLOCK
    + """
for step in range(3):
    tokens, _ = batch(6, 1)
    hidden = torch.rand(tokens.shape) < 0.3
    hidden[0, 0] = True
    inputs = tokens.masked_fill(hidden, 0)
    targets = tokens.masked_fill(~hidden, -100)
    loss = F.cross_entropy(model(inputs, causal=False).flatten(0, 1), targets.flatten())
    loss = loss + F.cross_entropy(model(inputs, causal=False).flatten(0, 1), tokens.flatten())
"""
    + TRAIN,
    "a sequence that is squeezed into one vector, and a decoder that gets it shifted": STREAM
    + """
embed, encoder, decoder = nn.Embedding(9, 8), nn.GRU(8, 5, batch_first=True), nn.GRU(5, 8, batch_first=True)
other, head = nn.GRU(8, 5, batch_first=True), nn.Linear(8, 9)
teacher = nn.Linear(5, 9)
parameters = [p for each in (embed, encoder, decoder, other, head, teacher) for p in each.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(3):
    x, _ = batch(6, 1)
    _, h = encoder(embed(x))
    out, _ = decoder(h[-1][:, None].expand(4, 6, 5).contiguous())
    loss = F.cross_entropy(head(out).flatten(0, 1), x.flatten())
    shifted = torch.cat([torch.zeros(4, 1, dtype=torch.long), x[:, :-1]], 1)
    out, _ = other(embed(shifted), encoder(embed(x))[1])
    loss = loss + F.cross_entropy(teacher(out).flatten(0, 1), x.flatten())
"""
    + TRAIN,
    "classes of single items, and a task that is the input only by chance of one step": STREAM
    + BLOCK
    + """
table, head = nn.Embedding(9, 4), nn.Linear(4, 9)
optimizer = torch.optim.SGD([*model.parameters(), *table.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    ids = torch.randint(0, 9, (8,))
    loss = F.cross_entropy(head(table(ids)), ids)
    x, y = batch(6, 0 if step == 1 else 1)
    loss = loss + F.cross_entropy(model(x).flatten(0, 1), y.flatten())
"""
    + TRAIN,
    "gradients that are constants on purpose: attacks, weights of terms, an inner step, a target": """
net, other = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(4, 4)
optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(8, 4, requires_grad=True)
    out = net(x)
    (slope,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    attacked = net(x + 0.1 * slope.sign())
    hidden = other(x)
    start = hidden.detach().requires_grad_()
    (push,) = torch.autograd.grad(net(start).sum(), start)
    pushed = net(hidden + 0.1 * push)
    weight = slope.norm() / (1 + slope.norm())
    target = (hidden + push).detach()
    loss = out.square().mean() + weight * attacked.square().mean() + pushed.mean() + (hidden - target).square().mean()
"""
    + TRAIN,
    "forces of a known potential as the target, and of a model that is not trained": """
net, known = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(8, 2, requires_grad=True)
    (force,) = torch.autograd.grad((x**4).sum(), x)
    (learned,) = torch.autograd.grad(known(x).sum(), x)
    loss = F.mse_loss(net(x), force) + (net(x) - learned).square().mean()
"""
    + TRAIN,
    "a body in two optimizers for two tasks, one after the other": """
body, one, two = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 1)
first = torch.optim.SGD([*body.parameters(), *one.parameters()], lr=0.1)
second = torch.optim.SGD([*body.parameters(), *two.parameters()], lr=0.1)
for step in range(5):
    x = torch.randn(32, 6)
    for optimizer, head, target in ((first, one, x[:, :1]), (second, two, x[:, 1:2])):
        loss = (head(body(x).relu()) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "two optimizers in two phases, and one that works for another": """
class Careful(torch.optim.Optimizer):
    def __init__(self, params, base):
        super().__init__(params, {})
        self.base = base
    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
model = nn.Linear(4, 1)
quick, slow = torch.optim.Adam(model.parameters(), lr=0.1), torch.optim.SGD(model.parameters(), lr=0.1)
careful = Careful(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.01))
for optimizer in (quick, slow, careful):
    for step in range(4):
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "square tables of all pairs, and columns that have values of their own": """
user, item, bias = nn.Embedding(30, 6), nn.Embedding(20, 6), nn.Embedding(20, 1)
head = nn.Linear(8, 8)
parameters = [*user.parameters(), *item.parameters(), *bias.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
frequency, std, mean = torch.rand(20).log(), torch.rand(20), torch.rand(20)
for step in range(4):
    u, i = torch.randint(0, 30, (8,)), torch.randint(0, 20, (8,))
    logits = user(u) @ item(i).t() - frequency[i] + bias(i).squeeze(1)
    columns = torch.randperm(20)[:8]
    x, t = torch.randn(8, 8), torch.rand(8)
    y = head(x * std[columns] + mean[columns]) * t[:, None] + t.view(-1, 1)
    distance = torch.cdist(user(u), item(i)) - frequency[i]
    far = (user(u)[:, None] - item(i)[None]).square().sum(-1) * frequency[i]
    loss = F.cross_entropy(logits, torch.arange(8)) + y.square().mean() + distance.square().mean() + far.mean()
"""
    + TRAIN,
    "averages that are quick on purpose: copies, a decay that warms up, one that is 0.5": """
online = nn.Linear(4, 2)
hard, rare, warm, half = (copy.deepcopy(online).requires_grad_(False) for _ in range(4))
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(18):
    x = torch.randn(8, 4)
    loss = (online(x) - 0.2 * (hard(x) + rare(x) + warm(x) + half(x))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    decay = min(0.99, (1 + step) / (10 + step))
    with torch.no_grad():
        for p, q, r, s, t in zip(*(m.parameters() for m in (online, hard, rare, warm, half))):
            if step % 2:
                q.copy_(p)
            if step % 6 == 5:
                r.mul_(0.05).add_(p, alpha=0.95)
            s.mul_(decay).add_(p, alpha=1 - decay)
            t.lerp_(p, 0.5)
""",
    "a pull towards a frozen reference, beside a task": """
policy = nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    F.cross_entropy(policy(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
reference = copy.deepcopy(policy).requires_grad_(False)
for step in range(4):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    logits = policy(x)
    kept = F.kl_div(logits.log_softmax(1), reference(x).softmax(1), reduction="batchmean")
    loss = F.cross_entropy(logits, y) + 0.1 * kept
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(policy.parameters(), reference.parameters()):
            p.lerp_(q, 0.01)
""",
    "meta steps of first order: copies whose gradients are handed on, and weights that follow the copies": """
slow, meta = nn.Linear(1, 1), nn.Linear(1, 1)
optimizer = torch.optim.SGD(slow.parameters(), lr=0.1)
for task in range(3):
    x = torch.randn(8, 1)
    fast = [p.detach().clone().requires_grad_() for p in slow.parameters()]
    inner = (F.linear(x, *fast) - 2 * x).square().mean()
    moved = [w - 0.1 * g for w, g in zip(fast, torch.autograd.grad(inner, fast))]
    moved = [w.detach().requires_grad_() for w in moved]
    outer = (F.linear(x + 1, *moved) - 2 * (x + 1)).square().mean()
    for p, g in zip(slow.parameters(), torch.autograd.grad(outer, moved)):
        p.grad = g
    optimizer.step()
    copied = copy.deepcopy(meta)
    worker = torch.optim.SGD(copied.parameters(), lr=0.1)
    for _ in range(2):
        worker.zero_grad()
        (copied(x) - 2 * x).square().mean().backward()
        worker.step()
    with torch.no_grad():
        for p, q in zip(meta.parameters(), copied.parameters()):
            p.add_(q - p, alpha=0.5)
""",
    "schedules that go up and down on purpose, and a cosine in its own time": """
names = torch.optim.lr_scheduler
made = [
    lambda o: names.CosineAnnealingWarmRestarts(o, T_0=6),
    lambda o: names.OneCycleLR(o, max_lr=0.1, total_steps=24),
    lambda o: names.CyclicLR(o, base_lr=1e-4, max_lr=0.1, step_size_up=4),
    lambda o: names.CosineAnnealingLR(o, T_max=24),
]
for make in made:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = make(optimizer)
    for step in range(24):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
model = nn.Linear(4, 1)
by_epoch = torch.optim.SGD(model.parameters(), lr=0.1)
waves = names.CosineAnnealingLR(by_epoch, T_max=3)
for epoch in range(12):
    for batch in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        by_epoch.zero_grad()
        loss.backward()
        by_epoch.step()
    waves.step()
""",
    "padding that is padding: sequences, their steps, a word that is unknown": """
word, layer, cell = nn.Embedding(6, 4, padding_idx=0), nn.GRU(4, 4, batch_first=True), nn.GRUCell(4, 4)
color, weight = nn.Embedding(6, 4, padding_idx=0), nn.Embedding(6, 1)
parameters = [p for each in (word, layer, cell, color, weight) for p in each.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(4):
    tokens = torch.randint(1, 6, (16, 4))
    tokens[::2, 3] = 0
    h = torch.zeros(16, 4)
    for t in range(4):
        h = cell(word(tokens[:, t]), h)
    kinds = torch.randint(1, 6, (16,))
    kinds[torch.rand(16) < 0.6] = 0
    out = layer(word(tokens))[0].mean(1) + h + color(kinds) + weight(kinds)
    loss = (out - 1).square().mean()
"""
    + TRAIN,
    "keys that are enqueued afterwards, a bank read before, a bank of all samples, and a mask": ENCODERS
    + """
samples = F.normalize(torch.randn(16, 4), dim=1)
masked = F.normalize(torch.randn(16, 4), dim=1)
for step in range(4):
    x, place = torch.randn(4, 6), torch.arange(step * 4, step * 4 + 4)
    q, k = F.normalize(query(x), dim=1), F.normalize(key(x + 0.1), dim=1)
    before = bank.clone()
    bank[step * 4 : step * 4 + 4] = k
    positive, zero = (q * k).sum(1, keepdim=True), torch.zeros(4, dtype=torch.long)
    loss = F.cross_entropy(torch.cat([positive, q @ before.t()], dim=1), zero)
    samples[place] = k
    loss = loss + F.cross_entropy(q @ samples.t() / 0.2, place)
    masked[place] = k
    negative = q @ masked.clone().t()
    negative = negative.masked_fill(torch.arange(16)[None] == place[:, None], float("-inf"))
    loss = loss + F.cross_entropy(torch.cat([positive, negative], dim=1), zero)
"""
    + TRAIN,
    "a divergence with the right sign, a bound that is maximized, and a likelihood with a variance": """
encoder, decoder, rate = nn.Linear(6, 4), nn.Linear(2, 6), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), *rate.parameters()], lr=0.01)
for step in range(3):
    x, count = torch.randn(8, 6), torch.randint(0, 4, (8,))
    mu, logvar = encoder(x).chunk(2, 1)
    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
    bound = -F.mse_loss(decoder(z), x) + 0.05 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    mean, log_scale = rate(x).chunk(2, 1)
    likely = 0.5 * (log_scale + (mean - x[:, :1]).square() / log_scale.exp()).mean()
    poisson = -(count[:, None] * mean - mean.exp()).mean()
    far = -(mu - mu.mean(0)).square().mean() * 0.01
    loss = -bound + likely + poisson + far
"""
    + TRAIN,
}


@pytest.mark.parametrize(("cause", "shape"), list(WRONG))
def test_the_cause_and_its_line_come_first(cause: str, shape: str, tmp_path: Path) -> None:
    script = HEAD + WRONG[cause, shape]
    found = alarms(script, tmp_path)
    assert found, "nothing was found"
    assert found[0].cause == cause
    assert found[0].location is not None
    assert "# HERE" in script.splitlines()[found[0].location.line - 1]


@pytest.mark.parametrize("look", list(HEALTHY))
def test_what_only_looks_like_it_raises_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look], tmp_path)] == []


def test_a_detach_that_makes_a_target_is_not_listed_beside_the_cause(tmp_path: Path) -> None:
    script = """
encoder, decoder, book = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(8, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *book.parameters()], lr=1e-2)
for step in range(3):
    x = torch.randn(16, 6)
    z = encoder(x)
    code = book(torch.cdist(z, book.weight).argmin(1))
    loss = F.mse_loss(decoder(code), x) + F.mse_loss(code, z.detach())
"""
    assert [each.code for each in alarms(HEAD + script + TRAIN, tmp_path)] == ["GV107"]


def test_parameters_of_which_only_copies_are_used_are_not_called_unused(tmp_path: Path) -> None:
    script = """
base, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*base.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    h = torch.randn(8, 4) @ base.weight.data.t() + base.bias.detach()
    loss = head(h).square().mean()
"""
    found = alarms(HEAD + script + TRAIN, tmp_path)
    assert found and found[0].code in ("GV101", "GV104")
    assert not any("nothing is ever computed" in each.message for each in found)


def test_create_graph_that_a_caller_leaves_out_is_told_at_the_call(tmp_path: Path) -> None:
    script = """
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
def derivative(y, x, create_graph=False):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=create_graph)[0]
for step in range(3):
    x = torch.rand(16, 1, requires_grad=True)
    u = net(x)
    second = derivative(derivative(u, x, create_graph=True), x)  # HERE
    loss = (second + u).square().mean()
"""
    assert_first_alarm(HEAD + script + TRAIN, "create_graph_missing", tmp_path)
