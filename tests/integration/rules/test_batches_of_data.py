"""Batches whose samples are of one class, or the same sample, and data that a batch brings and nothing uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


SORTED = """
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
centers = torch.randn({classes}, 6)
y = torch.arange({classes}).repeat_interleave(36)
x = centers[y] + 0.3 * torch.randn(len(y), 6)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, {outputs}))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
OF_ONE_CLASS = (
    (
        3,
        3,
        """
for i in range(0, 108, 12):
    inputs = x[i : i + 12]
    labels = y[i : i + 12]  # HERE
    loss = F.cross_entropy(model(inputs), labels)
""",
    ),
    (
        2,
        1,
        """
def batches(size):
    for part, labels in zip(x.split(size), y.float().unsqueeze(1).split(size)):  # HERE
        yield part, labels
for part, labels in batches(9):
    loss = F.binary_cross_entropy(model(part).sigmoid(), labels)
""",
    ),
    (
        4,
        4,
        """
class Points(Dataset):
    def __len__(self):
        return len(y)
    def __getitem__(self, index):
        return x[index], int(y[index])
def fit(loader):
    for part, labels in loader:
        scores = model(part).log_softmax(1)
        loss = -scores[torch.arange(len(labels)), labels].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train_data = DataLoader(Points(), batch_size=12)  # HERE
test_data = DataLoader(Points(), batch_size=50)
for epoch in range(2):
    fit(train_data)
for step in range(1):
    loss = model(x).mean()
""",
    ),
    (
        3,
        3,
        """
inputs, labels = x.numpy(), y.numpy()
for i in range(9):
    part = slice(12 * i, 12 * i + 12)
    target = F.one_hot(torch.from_numpy(labels[part]), 3).float()  # HERE
    loss = F.mse_loss(model(torch.from_numpy(inputs[part])).softmax(1), target)
""",
    ),
)


@pytest.mark.parametrize(("classes", "outputs", "loop"), OF_ONE_CLASS)
def test_batches_of_sorted_data_are_told(classes: int, outputs: int, loop: str, tmp_path: Path) -> None:
    script = HEAD + SORTED.format(classes=classes, outputs=outputs) + loop + TRAIN
    assert_first_alarm(script, "batches_of_one_class", tmp_path)


NOT_SORTED = (
    # shuffled
    (
        3,
        3,
        """
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
for part, labels in loader:
    loss = F.cross_entropy(model(part), labels)
""",
    ),
    # batches with several classes, most of them mixed
    (
        3,
        3,
        """
for i in range(0, 108, 27):
    loss = F.cross_entropy(model(x[i : i + 27]), y[i : i + 27])
""",
    ),
    # one task after another, each of which is one class
    (
        3,
        3,
        """
def task(k):
    return DataLoader(Subset(TensorDataset(x, y), range(36 * k, 36 * k + 36)), batch_size=12, shuffle=True)
for part, labels in (batch for k in range(3) for batch in task(k)):
    loss = F.cross_entropy(model(part), labels)
""",
    ),
    # the program takes one class at a time
    (
        3,
        3,
        """
for step in range(9):
    chosen = y == step // 3
    loss = F.cross_entropy(model(x[chosen]), y[chosen])
""",
    ),
    # a discriminator, which steps after each kind
    (
        2,
        1,
        """
def labels_for(scores, kind):
    return torch.full_like(scores, kind)
for step in range(8):
    scores = model(x[torch.randint(0, 72, (12,))])
    loss = F.binary_cross_entropy_with_logits(scores, labels_for(scores, float(step // 2 % 2)))
""",
    ),
    # the same with premade labels, by turns
    (
        2,
        1,
        """
kinds = torch.tensor([[0.0], [1.0]]).expand(2, 12).contiguous()
for step in range(8):
    scores = model(x[torch.randint(0, 72, (12,))]).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(scores, kinds[step % 2])
""",
    ),
    # time steps of equal sequences: each step sees all classes
    (
        4,
        4,
        """
words = torch.arange(4).expand(12, 4).contiguous()
for step in range(6):
    loss = sum(F.cross_entropy(model(x[:12]), words[:, t]) for t in range(4))
""",
    ),
    # labels of a model
    (
        3,
        3,
        """
teacher = nn.Linear(6, 3)
for i in range(0, 108, 12):
    with torch.no_grad():
        labels = (teacher(x[i : i + 12]) + 100 * F.one_hot(y[i : i + 12], 3)).argmax(1)
    loss = F.cross_entropy(model(x[i : i + 12]), labels)
""",
    ),
)


@pytest.mark.parametrize(("classes", "outputs", "loop"), NOT_SORTED)
def test_mixed_batches_and_those_that_are_meant_to_be_of_one_class_are_right(
    classes: int, outputs: int, loop: str, tmp_path: Path
) -> None:
    script = HEAD + SORTED.format(classes=classes, outputs=outputs) + loop + TRAIN
    assert "batches_of_one_class" not in causes(script, tmp_path)


VALUES = """
import random
import numpy as np
from torch.utils.data import DataLoader, Dataset
random.seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
OF_ONE_SAMPLE = (
    # an environment that changes its tensor, stored in a list of a memory
    """
class Memory:
    def __init__(self):
        self.items = []
    def push(self, *item):
        self.items.append(item)  # HERE
    def sample(self, count):
        chosen = random.sample(self.items, count)
        states, actions, rewards = zip(*chosen)
        return torch.stack(states), torch.tensor(actions), torch.tensor(rewards)
memory, state = Memory(), torch.zeros(4)
for step in range(40):
    state.add_(torch.randn(4))
    memory.push(state, step % 3, float(state.sum()))
    if step < 12:
        continue
    states, actions, rewards = memory.sample(8)
    loss = F.smooth_l1_loss(model(states).gather(1, actions.unsqueeze(1)).squeeze(1), rewards)
""",
    # a data set that ignores its index
    """
class Points(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(64, 4), torch.randint(0, 3, (64,))
    def __len__(self):
        return 64
    def __getitem__(self, index):
        x = self.x[self.last]  # HERE
        return x, self.y[index]
    last = 0
data = Points()
for x, y in DataLoader(data, batch_size=8, shuffle=True):
    loss = F.cross_entropy(model(x), y)
""",
    # a data set that gives one array of NumPy, which it fills anew for each sample
    """
class Windows(Dataset):
    def __init__(self):
        self.series, self.window = np.random.randn(72).astype(np.float32), np.zeros(4, dtype=np.float32)
    def __len__(self):
        return 64
    def __getitem__(self, index):
        self.window[:] = self.series[index : index + 4]
        return torch.from_numpy(self.window), torch.tensor(self.series[index + 4])  # HERE
for x, y in DataLoader(Windows(), batch_size=8, shuffle=True):
    loss = F.mse_loss(model(x).mean(1), y)
""",
    # views of one buffer
    """
buffer, x, y = torch.empty(4), torch.randn(80, 4), torch.randn(80, 3)
for step in range(8):
    samples = []
    for i in range(10):
        buffer.copy_(x[10 * step + i])
        samples.append(buffer[:])  # HERE
    batch = torch.stack(samples)
    loss = (model(batch) - y[10 * step : 10 * step + 10]).square().mean()
""",
)


@pytest.mark.parametrize("loop", OF_ONE_SAMPLE)
def test_batches_that_are_one_sample_are_told(loop: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + VALUES + loop + TRAIN, "batch_of_equal_rows", tmp_path)


OF_SEVERAL_SAMPLES = (
    # a test on one sample: the targets are the same, too
    """
x, y = torch.randn(4), torch.randn(3)
for step in range(6):
    loss = F.mse_loss(model(torch.stack([x + 0.01 * step] * 8)), torch.stack([y] * 8))
""",
    # coordinates that are repeated, with a mask for each sample
    """
targets = torch.randn(8, 3)
for step in range(6):
    place = torch.tensor([step / 6, 0.5, -0.5, 1.0]).expand(8, 4)
    loss = F.mse_loss(model(place), targets)
""",
    # an embedding of a time that the whole batch has
    """
rates, targets = torch.linspace(1, 2, 4), torch.randn(8, 3)
for step in range(6):
    time = torch.full((8, 1), step / 6)
    loss = F.mse_loss(model(torch.sin(time * rates)), targets)
""",
    # one question with many answers, which the model reads as well
    """
answers = nn.Linear(5, 3)
for step in range(6):
    question, options = torch.randn(4), torch.randn(8, 5)
    scores = (model(torch.stack([question] * 8)) * answers(options)).sum(1)
    loss = F.binary_cross_entropy_with_logits(scores, (options[:, 0] > 0).float())
""",
    # one context for all choices of an agent
    """
context = torch.tensor([[0.5, 1.0, 0.0, 0.0]] * 8)
for step in range(6):
    actions = torch.randint(0, 3, (8, 1))
    chosen = model(context).log_softmax(1).gather(1, actions)
    loss = -(chosen.squeeze(1) * (actions[:, 0] == 1).float()).mean()
""",
    # noise beside one sample
    """
x = torch.randn(6, 4)
for step in range(6):
    loss = F.mse_loss(model(torch.stack([x[step]] * 8)), torch.randn(8, 3))
""",
)


@pytest.mark.parametrize("loop", OF_SEVERAL_SAMPLES)
def test_rows_that_are_meant_to_be_the_same_are_right(loop: str, tmp_path: Path) -> None:
    assert "batch_of_equal_rows" not in causes(HEAD + VALUES + loop + TRAIN, tmp_path)


AGENT = """
q, lag = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.SGD(q.parameters(), lr=0.01)
states, rewards = torch.randn(90, 4), torch.rand(90)
ends = (torch.rand(90) < {often}).float()
def sample(count):
    i = torch.randint(0, 89, (count,))
    return states[i], rewards[i], states[i + 1], ends[i]
"""
TEXTS = """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
texts = [torch.randint(1, 20, (n,)) for n in torch.randint({least}, 9, (48,)).tolist()]
def collate(texts):
    lengths, classes = torch.tensor([len(t) for t in texts]), torch.stack([t[-1] % 2 for t in texts])
    return pad_sequence(texts, batch_first=True), lengths, classes
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.layer = nn.Embedding(20, 8), nn.{layer}(8, 8, batch_first=True)
        self.head = nn.Linear(8, 2)
    def forward(self, x{more}):
{body}
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(texts, batch_size=8, collate_fn=collate)
"""
LAST = """
        out, _ = self.layer(self.tokens(x))
        return self.head(out[:, -1]){mark}
"""
WEIGHED = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y, w = torch.randn(64, 4), torch.randn(64, 1), {weights}
class Memory:
    def take(self, count):
        i = torch.randint(0, 64, (count,))
        return x[i], y[i], w[i]
memory = Memory()
"""
UNUSED = (
    # in a function that has returned, in a batch that a list of Python keeps
    AGENT.format(often=0.2)
    + """
kept = [tuple(part[i] for part in sample(64)) for i in range(64)]
def batch(count):
    s, r, following, ended = zip(*[kept[i] for i in torch.randperm(64)[:count].tolist()])
    return torch.stack(s), torch.stack(r), torch.stack(following), torch.tensor([float(each) for each in ended])
def error(given):
    s, r, following, done = given
    best = lag(following).max(1)[0].detach()
    target = r + 0.95 * best  # HERE
    return F.mse_loss(q(s).max(1)[0], target)
for step in range(8):
    loss = error(batch(16))
""",
    AGENT.format(often=0.2)
    + """
for step in range(8):
    s, r, following, done = sample(16)
    done = done.to("cpu")
    best = lag(following).max(1)[0].detach()
    target = r + 0.95 * best  # HERE
    loss = F.mse_loss(q(s).max(1)[0], target)
""",
    TEXTS.format(least=3, layer="GRU", more="", body=LAST.format(mark="  # HERE"))
    + """
def fit(batches):
    for step, (x, lengths, y) in enumerate(batches):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
fit(loader)
for step in range(1):
    loss = model(texts[0][None]).sum()
""",
    WEIGHED.format(weights="torch.rand(64)")
    + """
for step in range(8):
    inputs, targets, is_weights = memory.take(16)
    loss = F.smooth_l1_loss(model(inputs), targets)  # HERE
""",
)


@pytest.mark.parametrize("script", UNUSED)
def test_data_that_nothing_reads_is_told_where_it_belongs(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "loaded_and_not_used", tmp_path)


FLAGS_OF_ANY_NAME = (
    AGENT.format(often=0.2)
    + """
for step in range(8):
    s, r, following, over = (each.tolist() for each in sample(16))
    s, following = torch.tensor(s), torch.tensor(following)
    r, over = torch.tensor(r), torch.tensor(over, dtype=torch.float32)
    with torch.no_grad():
        target = r + 0.95 * lag(following).amax(1)  # HERE
    loss = F.mse_loss(q(s).amax(1), target)
"""
)


def test_flags_with_another_name_are_told_where_nothing_else_marks_the_ends(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + FLAGS_OF_ANY_NAME + TRAIN, "loaded_and_not_used", tmp_path)
    masked = FLAGS_OF_ANY_NAME.replace("lag(following).amax(1)  # HERE", "(lag(following).amax(1) * (r < 0.5).float())")
    assert "loaded_and_not_used" not in causes(HEAD + masked + TRAIN, tmp_path)


USED = (
    # the same in a function that has returned, in a batch that a list of Python keeps
    AGENT.format(often=0.2)
    + """
kept = [tuple(part[i] for part in sample(64)) for i in range(64)]
def batch(count):
    s, r, following, ended = zip(*[kept[i] for i in torch.randperm(64)[:count].tolist()])
    return torch.stack(s), torch.stack(r), torch.stack(following), torch.tensor([float(each) for each in ended])
def error(given):
    s, r, following, done = given
    best = lag(following).max(1)[0].detach()
    target = r + 0.95 * best * (1 - done)
    return F.mse_loss(q(s).max(1)[0], target)
for step in range(8):
    loss = error(batch(16))
""",
    # the ends are used
    AGENT.format(often=0.2)
    + """
for step in range(8):
    s, r, following, done = sample(16)
    with torch.no_grad():
        target = r + 0.95 * lag(following).amax(1) * (1 - done)
    loss = F.mse_loss(q(s).amax(1), target)
""",
    # no episode ended
    AGENT.format(often=-1)
    + """
for step in range(8):
    s, r, following, done = sample(16)
    with torch.no_grad():
        target = r + 0.95 * lag(following).amax(1)
    loss = F.mse_loss(q(s).amax(1), target)
""",
    # a model of the environment: no value of a next state
    AGENT.format(often=0.2)
    + """
world = nn.Linear(3, 4)
for step in range(8):
    s, r, following, done = sample(16)
    loss = F.mse_loss(world(q(s)), following)
""",
    # named like something that is not needed
    AGENT.format(often=0.2)
    + """
for step in range(8):
    s, r, following, _done = sample(16)
    with torch.no_grad():
        target = r + 0.95 * lag(following).amax(1)
    loss = F.mse_loss(q(s).amax(1), target)
""",
    # lengths that the model is given
    TEXTS.format(
        least=3,
        layer="GRU",
        more=", lengths",
        body="""
        packed = pack_padded_sequence(self.tokens(x), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.layer(packed)[1][-1])
""",
    )
    + """
for x, lengths, y in loader:
    loss = F.cross_entropy(model(x, lengths), y)
""",
    # a mask that is made of the tokens
    TEXTS.format(
        least=3,
        layer="GRU",
        more="",
        body="""
        out, known = self.layer(self.tokens(x))[0], (x != 0).unsqueeze(2)
        return self.head((out * known).sum(1) / known.sum(1))
""",
    )
    + """
for x, lengths, y in loader:
    loss = F.cross_entropy(model(x), y)
""",
    # all texts are as long
    TEXTS.format(least=8, layer="GRU", more="", body=LAST.format(mark=""))
    + """
for x, lengths, y in loader:
    loss = F.cross_entropy(model(x), y)
""",
    # all weights are 1
    WEIGHED.format(weights="torch.ones(64)")
    + """
for step in range(8):
    inputs, targets, weights = memory.take(16)
    loss = F.mse_loss(model(inputs), targets)
""",
    # the weights are taken out of the batch under no name
    WEIGHED.format(weights="torch.rand(64)")
    + """
for step in range(8):
    batch = memory.take(16)
    inputs, targets, weights = batch
    loss = (batch[2].unsqueeze(1) * F.mse_loss(model(inputs), targets, reduction="none")).mean()
""",
)


@pytest.mark.parametrize("script", USED)
def test_data_that_is_used_or_changes_nothing_is_right(script: str, tmp_path: Path) -> None:
    assert "loaded_and_not_used" not in causes(HEAD + script + TRAIN, tmp_path)
