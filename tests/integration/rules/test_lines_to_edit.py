"""Gradients and numbers that are too small for float16; and, of several lines that have to do with a fault, the one to
edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
QUANTIZED = """
class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit, self.fc = nn.Parameter(torch.tensor(0.37)), nn.Linear(4, 4)

    def forward(self, x):
"""
TRAIN_QUANTIZED = """
net = Quantized()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = (net(x) - x).square().mean()
"""
DISTILLED = """
teacher, student = nn.Linear(4, 3).requires_grad_(False), nn.Linear(4, 3)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    x, labels = torch.randn(8, 4), torch.randint(3, (8,))
"""
RECURRENT = """
cell = nn.LSTMCell(3, 4)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
state = torch.zeros(2, 4), torch.zeros(2, 4)
"""
CURVED = """
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    x = torch.rand(16, 1, requires_grad=True)
    u = net(x)
    slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
    loss = (bend + torch.sin(x)).square().mean() + net(torch.zeros(1, 1)).square().mean()
"""

WRONG: dict[str, tuple[str, str]] = {
    "a small loss of results in float16, by autocast": (
        "gradient_underflow",
        MODEL
        + """
for step in range(3):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        y = net(x)
    loss = 1e-8 * F.mse_loss(y.float(), x[:, :1])
    optimizer.zero_grad()
    loss.backward()  # HERE
    optimizer.step()
""",
    ),
    "a model in float16 whose loss is cast in a helper": (
        "gradient_underflow",
        MODEL
        + """
net.half()
def error(y, x):
    return (y.to(torch.float32) - x).square().mean()
for step in range(3):
    x = torch.randn(8, 6)
    loss = error(net(x.half()), x[:, :1]) / 1e8
    loss.backward()  # HERE
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
    "a gradient that is lost in the second product in float16": (
        "gradient_underflow",
        MODEL
        + """
nn.init.uniform_(net[2].weight, 1e-4, 2e-4)
for step in range(3):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.l1_loss(net(x), 9 + x[:, :1])
    optimizer.zero_grad()
    (1e-5 * loss).backward()  # HERE
    optimizer.step()
""",
    ),
    "a loss that is computed in float16, of many values": (
        "gradient_underflow",
        """
scale = nn.Parameter(torch.tensor(0.5, dtype=torch.float16))
optimizer = torch.optim.SGD([scale], lr=0.1)
x = torch.full((40_000,), 1.0, dtype=torch.float16)
for step in range(3):
    loss = F.mse_loss(x * scale, x * 0.5 + 5e-4)
    optimizer.zero_grad()
    loss.backward()  # HERE
    optimizer.step()
""",
    ),
    "Adam with parameters in float16": (
        "nan_from_op",
        """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).half()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)  # HERE
for step in range(3):
    x = torch.randn(32, 6).half()
    loss = (net(x).float() - 0.1).abs().mean() * 1e-3
"""
        + TRAIN,
    ),
    "Adam with parameters in float16 of a function that has ended": (
        "nan_from_op",
        """
def train():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    net = net.to(torch.float16)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)  # HERE
    for step in range(3):
        loss = (net(torch.randn(32, 6).half()).float() - 0.1).abs().mean() * 1e-3
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train()
""",
    ),
    "AdamW with groups of parameters, and a model that is cast later": (
        "nan_from_op",
        """
net = nn.Linear(6, 2)
groups = [{"params": [net.weight]}, {"params": [net.bias], "lr": 1e-2}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)  # HERE
net.to(torch.float16)
for step in range(3):
    loss = net(torch.randn(32, 6).half()).square().mean() * 1e-3
"""
        + TRAIN,
    ),
    "RMSprop without eps": (
        "nan_from_op",
        """
net = nn.Linear(6, 2)
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, eps=0.0)  # HERE
for step in range(3):
    loss = net(torch.randn(32, 6) * torch.tensor([1.0, 1, 1, 1, 1, 0])).square().mean()
"""
        + TRAIN,
    ),
    "a loop that gives its own variable the detached state": (
        "state_not_detached",
        RECURRENT
        + """
for step in range(3):
    for h in state:
        h = h.detach()  # HERE
    state = cell(torch.randn(2, 3), state)
    loss = state[0].square().mean()
"""
        + TRAIN,
    ),
    "a function that cuts off one of two parts": (
        "state_not_detached",
        RECURRENT
        + """
def cut(state):
    hidden, *others = state
    return (hidden.detach(), *others)  # HERE
for step in range(3):
    state = cut(state)
    state = cell(torch.randn(2, 3), state)
    loss = state[0].square().mean()
"""
        + TRAIN,
    ),
    "vectors that an evaluation keeps without a graph, and the training uses": (
        "no_grad_block",
        """
class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text, self.kept = nn.Linear(6, 4), nn.Embedding(3, 4), None

    def vectors(self):
        if self.kept is None:
            self.kept = F.normalize(self.text(torch.arange(3)), dim=1)  # HERE
        return self.kept

    def forward(self, x):
        return self.image(x) @ self.vectors().T

model = Matcher()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.no_grad():
    model(torch.randn(5, 6))
for step in range(4):
    loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
"""
        + TRAIN,
    ),
    "a function that returns nothing": (
        "state_not_detached",
        RECURRENT
        + """
def cut(state):
    state = tuple(each.detach() for each in state)  # HERE
for step in range(3):
    cut(state)
    state = cell(torch.randn(2, 3), state)
    loss = state[0].square().mean()
"""
        + TRAIN,
    ),
    "detach() of an attribute, whose result is dropped": (
        "state_not_detached",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.h = nn.GRU(3, 4), torch.zeros(1, 2, 4)

    def forward(self, x):
        self.h.detach()  # HERE
        y, self.h = self.rnn(x, self.h)
        return y

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(5, 2, 3)).square().mean()
"""
        + TRAIN,
    ),
    "a state that a module carries on with its graph, beside what is detached": (
        "state_not_detached",
        RECURRENT
        + """
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = cell
    def forward(self, x, state):
        h, c = self.cell(x, state)
        return h[:, :1], (h, c)
learner, theta, state = Learner(), torch.zeros(2, 1), None
for step in range(3):
    move, state = learner(torch.randn(2, 3), state)
    theta = theta + move
    loss = (theta - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    theta = theta.detach()  # HERE
""",
    ),
    "a state that is recorded, and carried on with its graph": (
        "state_not_detached",
        RECURRENT
        + """
record = []
for step in range(3):
    state = cell(torch.randn(2, 3), state)  # HERE
    record.append(state[0].detach())
    last = state[0].detach()
    loss = state[0].square().mean()
"""
        + TRAIN,
    ),
    "one function makes both arguments of a divergence": (
        "normalized_twice",
        """
def soften(scores, temperature=2.0):
    return F.softmax(scores / temperature, dim=-1)
"""
        + DISTILLED
        + """
    target = soften(teacher(x))
    given = soften(student(x))  # HERE
    loss = F.kl_div(given, target, reduction="batchmean")
"""
        + TRAIN,
    ),
    "one line makes both arguments of a divergence, and a module computes it": (
        "normalized_twice",
        DISTILLED
        + """
    given, target = [torch.softmax(each(x), 1) for each in (student, teacher)]
    loss = nn.KLDivLoss(reduction="batchmean")(given, target)  # HERE
"""
        + TRAIN,
    ),
    "probabilities that have an entropy, too": (
        "normalized_twice",
        DISTILLED
        + """
    p = student(x).softmax(1)
    loss = 0.1 * (p * p.log()).sum(1).mean()
    loss = loss + F.cross_entropy(p, labels)  # HERE
"""
        + TRAIN,
    ),
    "a function that ends with whatever layer it is given": (
        "normalized_twice",
        """
def layers_of(sizes, last=nn.Sigmoid):
    layers = [nn.Linear(*sizes)]
    if last is not None:
        layers.append(last())
    return nn.Sequential(*layers)
model = layers_of([4, 3])  # HERE
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = F.binary_cross_entropy_with_logits(model(x), (x[:, :3] > 0).float())
"""
        + TRAIN,
    ),
    "probabilities that nothing else needs": (
        "normalized_twice",
        DISTILLED
        + """
    p = student(x).softmax(1)  # HERE
    loss = F.kl_div(p, teacher(x).softmax(1), reduction="batchmean")
"""
        + TRAIN,
    ),
    "activations that are made on several lines": (
        "second_derivative_zero",
        """
layers = [nn.Linear(1, 8), nn.ReLU()]  # HERE
for width in (8, 8):
    layers += [nn.Linear(width, width), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(8, 1))
"""
        + CURVED
        + TRAIN,
    ),
    "an activation of a module behind a value without a sign": (
        "second_derivative_zero",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 8), nn.Linear(8, 1)
        self.act = nn.LeakyReLU(0.2)  # HERE

    def forward(self, x):
        return self.last(self.act(self.first(x.abs())))

net = Net()
"""
        + CURVED
        + TRAIN,
    ),
    "a limit as a number, and a step size that is detached": (
        "tensor_rewrap",
        QUANTIZED
        + """
        y = torch.clamp(self.fc(x), 0.0, self.limit.item())  # HERE
        return y / (self.limit.detach() / 15)
"""
        + TRAIN_QUANTIZED
        + TRAIN,
    ),
    "a factor as a number behind a detached divisor": (
        "tensor_rewrap",
        QUANTIZED
        + """
        y = self.fc(x) / self.limit.detach()
        limit = self.limit.item()  # HERE
        return torch.tanh(y) * limit
"""
        + TRAIN_QUANTIZED
        + TRAIN,
    ),
    "a detached factor beside a number that is only printed": (
        "detached",
        QUANTIZED
        + """
        print(self.limit.item())
        return torch.tanh(self.fc(x)) * self.limit.detach()  # HERE
"""
        + TRAIN_QUANTIZED
        + TRAIN,
    ),
    "a detached result beside a number that scales the loss": (
        "detached",
        MODEL
        + """
for step in range(3):
    x = torch.randn(8, 6)
    h = net[0](x)
    size = h.norm().item()
    loss = net[1:](h.detach()).square().mean() / size  # HERE
"""
        + TRAIN,
    ),
}

HEALTHY: dict[str, str] = {
    "a small loss that a scaler makes larger": MODEL
    + """
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        y = net(x)
    loss = 1e-8 * F.mse_loss(y.float(), x[:, :1])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "a small loss of results in bfloat16": MODEL
    + """
for step in range(3):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
    loss = 1e-8 * F.mse_loss(y.float(), x[:, :1])
"""
    + TRAIN,
    "a usual loss of results in float16": MODEL
    + """
for step in range(3):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        y = net(x)
    loss = F.mse_loss(y.float(), x[:, :1])
"""
    + TRAIN,
    "Adam with parameters in float16 and an eps that it can hold": """
net = nn.Linear(6, 2).half()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-4)
for step in range(3):
    loss = net(torch.randn(32, 6).half()).square().mean() * 1e-3
"""
    + TRAIN,
    "Adam with parameters that are in float32 again, in a function": """
def train():
    net = nn.Linear(6, 2).half().float()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(3):
        loss = net(torch.randn(32, 6)).square().mean() * 1e-3
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train()
""",
    "Adam with parameters in bfloat16": """
net = nn.Linear(6, 2).to(torch.bfloat16)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(3):
    loss = net(torch.randn(32, 6).to(torch.bfloat16)).square().mean() * 1e-3
"""
    + TRAIN,
}


@pytest.mark.parametrize(("cause", "script"), WRONG.values(), ids=WRONG)
def test_the_line_to_edit_is_named(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_numbers_that_a_dtype_can_hold_are_no_finding(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []


def test_figures_of_gradients_that_are_too_small_are_told(tmp_path: Path) -> None:
    cause, script = WRONG["a small loss of results in float16, by autocast"]
    (found,) = alarms(HEAD + script, tmp_path)
    assert found.cause == cause
    assert "the smallest number of float16 is 6e-08" in found.message
    assert "e-09" in found.message
    assert "torch.amp.GradScaler" in found.fix


def test_a_scaler_that_begins_with_a_small_scale_is_not_recommended_again(tmp_path: Path) -> None:
    small = HEALTHY["a small loss that a scaler makes larger"].replace('("cpu")', '("cpu", init_scale=1.0)')
    (found,) = alarms(HEAD + small, tmp_path)
    assert found.cause == "gradient_underflow"
    assert "larger init_scale" in found.fix


def test_zeros_after_a_loss_that_is_nan_are_not_told_beside_its_cause(tmp_path: Path) -> None:
    _, script = WRONG["Adam with parameters in float16"]
    found = alarms(HEAD + script.replace("range(3)", "range(7)"), tmp_path)
    assert [each.cause for each in found] == ["nan_from_op"]
    assert "its eps of 1e-08 is 0 in float16" in found[0].message
    assert "eps=1e-4" in found[0].fix


def test_a_second_cut_is_named_beside_a_parameter_that_goes_on_as_a_number(tmp_path: Path) -> None:
    _, script = WRONG["a limit as a number, and a step size that is detached"]
    (found,) = alarms(HEAD + script, tmp_path)
    assert found.location is not None
    assert f"the detach() at line {found.location.line + 1} cuts it off, too" in found.fix


TEACHER = """
class Distilled(nn.Module):
    def __init__(self, teacher, student):
        super().__init__()
        self.teacher, self.student = teacher, student
        self.teacher.requires_grad_(False).eval()

    def forward(self, x):
        with torch.no_grad():
            wanted = self.teacher(x)
        return (self.student(x) - wanted).square().mean()

def warm_up(net):
    net.train()
    net(torch.randn(8, 4))

teacher = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 2))
warm_up(teacher)
model = Distilled(teacher, nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.student.parameters(), lr=0.1)
for epoch in range(2):
    model.train()  # HERE
    for step in range(3):
        loss = model(torch.randn(8, 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NORMALIZED = """
def normalize(model):
    for layer in model:
        torch.nn.utils.parametrizations.weight_norm(layer)

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
normalize(model)  # HERE
for step in range(3):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ADAPTED = """
class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.down = base, nn.Parameter(torch.randn(2, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)

model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 1))
model[0].requires_grad_(False)
for name, layer in list(model.named_modules()):
    if isinstance(layer, nn.Linear) and name == "0.0":
        setattr(model, name, Adapter(layer))  # HERE
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for step in range(3):
    loss = model[1](model[0](torch.randn(8, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BRANCH = """
class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.strength = nn.Linear(4, 4), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return x + self.strength * self.body(x)

def make_optimizer(model):
{choice}
    return torch.optim.SGD(
        [{{"params": matrices, "weight_decay": 0.1}}, {{"params": vectors}}], lr=0.1
    )

model = Branch()
optimizer = make_optimizer(model)
for step in range(3):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LISTED = """    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim == 1]  # HERE"""
SORTED_OUT = """    matrices, vectors = [], []
    for name, p in model.named_parameters():
        if p.ndim == 2:
            matrices.append(p)
        elif name.endswith("bias"):  # HERE
            vectors.append(p)"""
POOLED = """
def normalized(width, groups):
    return nn.Sequential(
        nn.Conv2d(4, width, 1), nn.GroupNorm(groups, width), nn.Tanh()
    )

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = normalized(4, 2)
        self.scene = nn.Sequential(nn.AdaptiveAvgPool2d(1), normalized(4, 4))  # HERE

    def forward(self, x):
        return self.local(x) + self.scene(x)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(3, 4, 5, 5)
    loss = (net(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GROUPS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.place = nn.Linear(6, 3), nn.Parameter(torch.randn(3))
    def forward(self, x):
        return self.body(x) + self.place
def groups_of(model):
    decayed, others = [], []
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            others.append(p)
        elif name.endswith("weight"):  # HERE
            decayed.append(p)
    return [{"params": decayed, "weight_decay": 0.1}, {"params": others}]
net = Net()
optimizer = torch.optim.AdamW(groups_of(net))
for step in range(4):
    loss = net(torch.randn(8, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAYERS = """
maker, critic = nn.Linear(3, 4), nn.Linear(4, 1)
of_maker, of_critic = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
for step in range(6):
    real, fake = torch.randn(8, 4), maker(torch.randn(8, 3))
    of_maker.zero_grad()  # HERE
    loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake.detach())).mean()
    loss.backward()
    of_critic.step()
    of_maker.zero_grad()
    (-critic(fake).mean()).backward()
    of_maker.step()
"""
FLIPPED_APART = """
class Flip:
    def __call__(self, picture):
        if torch.rand(()) < 0.5:
            picture = picture.flip(-1)
        if torch.rand(()) < 0.5:
            picture = picture.flip(-2)
        return picture
flip, net = Flip(), nn.Conv2d(1, 2, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
pictures = torch.randn(32, 1, 6, 6)
def sample(number):
    picture, mask = pictures[number], (pictures[number, 0] > 0).long()
    picture = flip(picture)
    mask = flip(mask)  # HERE
    return picture, mask
for step in range(6):
    x, y = map(torch.stack, zip(*[sample(n) for n in range(16)]))
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("cause", "script"),
    [
        ("training_mode", TEACHER),
        ("stale_optimizer_params", NORMALIZED),
        ("unused_parameter", ADAPTED),
        ("not_stepped", BRANCH.format(choice=LISTED)),
        ("not_stepped", BRANCH.format(choice=SORTED_OUT)),
        ("normalized_alone", POOLED),
        ("normalized_alone", POOLED.replace("Tanh", "ReLU")),
        ("not_stepped", GROUPS),
        ("missing_zero_grad", PLAYERS),
        ("augmented_apart", FLIPPED_APART),
    ],
)
def test_of_several_places_the_one_to_edit_is_named(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)
