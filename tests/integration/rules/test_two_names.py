"""Tensors, dictionaries and lists that have two names and are changed under one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CAUSE = "changed_under_two_names"


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


MASKED = """
model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    ids = torch.randint(0, 48, (16, 12))
    {labels}
    mask = torch.rand(ids.shape) < 0.15
    {masked}
    labels = torch.where(mask, labels, -100)
    loss = F.cross_entropy(model({given}).flatten(0, 1), labels.flatten(), ignore_index=-100)
"""
STATES = """
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
state = torch.zeros(16, 8)
{before}
for step in range(4):
    {kept}
    state.mul_(0.9).add_(torch.randn(16, 8))
    loss = F.mse_loss(model(state), state - previous)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""
VIEWS = """
def augment(x):
    {change}
    return x

encoder, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8, 8)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.05)
for step in range(4):
    x = torch.randn(32, 8)
    {views}
    loss = -F.cosine_similarity(head(encoder(a)), encoder(b).detach()).mean()
"""
BLOCKS = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.act, self.linear = nn.ReLU(inplace={inplace}), nn.Linear(16, 16)

    def forward(self, x):
        {forward}

model = nn.Sequential(nn.Linear(8, 16), Block(), Block(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(4):
    loss = F.cross_entropy(model(torch.randn(32, 8)), torch.randint(0, 3, (32,)))
"""
TASKS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    slow, losses = dict(model.named_parameters()), []
    for task in range(3):
        x, y = torch.randn(10, 4), torch.randn(10, 1)
        {begin}
        inner = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
        gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
        for (name, weight), gradient in zip(list(fast.items()), gradients):
            fast[name] = weight - 0.1 * gradient
        losses.append(F.mse_loss(torch.func.functional_call(model, fast, (x,)), y))
    loss = torch.stack(losses).mean()
"""
WRONG = (
    MASKED.format(labels="labels = ids  # HERE", masked="ids[mask] = 49", given="ids") + TRAIN,
    MASKED.format(
        labels="masked, labels = ids, ids  # HERE", masked="masked.masked_fill_(mask, 49)", given="masked"
    ).replace("torch.where(mask, labels", "torch.where(mask, ids")
    + TRAIN,
    STATES.format(before="", kept="previous = state  # HERE", after=""),
    STATES.format(before="previous = torch.zeros(16, 8)", kept="", after="previous = state.detach()  # HERE"),
    VIEWS.format(change="x += 0.1 * torch.randn_like(x)  # HERE", views="a, b = augment(x), augment(x)") + TRAIN,
    VIEWS.format(change="x[:, torch.randperm(8)[:2]] = 0  # HERE", views="a = augment(x)\n    b = x") + TRAIN,
    BLOCKS.format(inplace=True, forward="h = self.act(x)  # HERE\n        return x + self.linear(h)") + TRAIN,
    TASKS.format(begin="fast = slow  # HERE") + TRAIN,
)
RIGHT = (
    MASKED.format(labels="labels = ids.clone()", masked="ids[mask] = 49", given="ids") + TRAIN,
    MASKED.format(labels="labels = ids", masked="ids = ids.masked_fill(mask, 49)", given="ids") + TRAIN,
    STATES.format(before="", kept="previous = state.clone()", after=""),
    STATES.format(before="previous = torch.zeros(16, 8)", kept="", after="previous = state.clone()"),
    VIEWS.format(change="x = x + 0.1 * torch.randn_like(x)", views="a, b = augment(x), augment(x)") + TRAIN,
    VIEWS.format(change="x += 0.1 * torch.randn_like(x)", views="a, b = augment(x.clone()), augment(x.clone())")
    + TRAIN,
    VIEWS.format(change="x /= x.norm(dim=1, keepdim=True)", views="x = augment(x)\n    a, b = x, x.flip(0)") + TRAIN,
    BLOCKS.format(inplace=False, forward="h = self.act(x)\n        return x + self.linear(h)") + TRAIN,
    BLOCKS.format(inplace=True, forward="x = self.act(x)\n        return x + self.linear(x)") + TRAIN,
    """
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    x[:, 0] += 1; out = net(x); other = net(x.flip(0))
    loss = (out - x).square().mean() + other.square().mean()"""
    + TRAIN,
    BLOCKS.format(inplace=True, forward="h = self.linear(x)\n        h = self.act(h)\n        return x + h") + TRAIN,
    TASKS.format(begin="fast = dict(slow)") + TRAIN,
    TASKS.format(begin="fast = slow").replace(
        "        losses.append", "        slow = dict(slow)\n        losses.append"
    )
    + TRAIN,
)


NESTEROV = """
model = nn.Linear(4, 1)
velocities = [torch.zeros_like(p) for p in model.parameters()]
for step in range(3):
    model.zero_grad()
    F.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1)).backward()
    with torch.no_grad():
        {step}
"""
ONE_VELOCITY = (
    "for p, v in zip(model.parameters(), velocities):\n            before = v  # HERE\n"
    "            v.mul_(0.9).sub_(p.grad, alpha=0.1)\n            p.add_(v, alpha=1.9).sub_(before, alpha=0.9)",
    "ps = list(model.parameters())\n        before = velocities  # HERE\n"
    "        torch._foreach_mul_(velocities, 0.9)\n"
    "        torch._foreach_sub_(velocities, [p.grad for p in ps], alpha=0.1)\n"
    "        torch._foreach_add_(ps, velocities, alpha=1.9)\n        torch._foreach_sub_(ps, before, alpha=0.9)",
)


@pytest.mark.parametrize("step", ONE_VELOCITY)
def test_a_velocity_of_before_that_is_the_new_one_is_told(step: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + NESTEROV.format(step=step), CAUSE, tmp_path)


def test_a_copy_of_the_velocity_is_right(tmp_path: Path) -> None:
    step = ONE_VELOCITY[0].replace("before = v  # HERE", "before = v.clone()")
    assert CAUSE not in causes(HEAD + NESTEROV.format(step=step), tmp_path)


@pytest.mark.parametrize("script", WRONG)
def test_what_changes_under_another_name_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, CAUSE, tmp_path)


@pytest.mark.parametrize("script", RIGHT)
def test_copies_and_new_tensors_are_right(script: str, tmp_path: Path) -> None:
    assert CAUSE not in causes(HEAD + script, tmp_path)


@pytest.mark.parametrize(
    "view", ["view(8, 2, 4)", "unflatten(1, (2, 4))", "unsqueeze(1)", "reshape(8, 2, 4)", "float()"]
)
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_view_of_another_shape_is_told_where_it_is_changed(view: str, is_copied: bool, tmp_path: Path) -> None:
    script = f"""
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 8)
    parts = x.{view}{".clone()" if is_copied else ""}
    parts.mul_(torch.rand(parts.shape) > 0.5)  # HERE
    loss = (model(parts.flatten(1)) - x).square().mean()
"""
    if is_copied:
        assert CAUSE not in causes(HEAD + script + TRAIN, tmp_path)
    else:
        assert_first_alarm(HEAD + script + TRAIN, CAUSE, tmp_path)


HIDDEN = """
def hide(frames):
    {view}
    {change}
    return {results}

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    clean = {data}
    {call}
    loss = F.mse_loss(model(seen), clean.reshape(8, 8).float())
"""
MASK = "inputs.masked_fill_(torch.rand(inputs.shape) < 0.4, 0.0)"
CALL, DATA = "seen, hidden = hide(clean)", "torch.rand(8, 2, 4)"
PARTS = {"change": MASK, "results": "inputs, inputs == 0", "data": DATA, "call": CALL}
SHARED = (
    {"view": "inputs = frames.flatten(1)  # HERE"},
    {"view": "inputs = torch.flatten(frames, 1)  # HERE", "results": "inputs", "call": "seen = hide(clean)"},
    {"view": "inputs = frames.reshape(len(frames), -1).float()  # HERE", "change": "inputs *= torch.rand(8, 8) > 0.4"},
    {
        "view": "inputs = frames.contiguous().view(8, 8)  # HERE",
        "results": "inputs == 0, inputs",
        "call": "hidden, seen = hide(clean)",
    },
)
NEW_MEMORY = (
    {"view": "inputs = frames.flatten(1).clone()"},
    # They rearrange or convert, so they copy.
    {"view": "inputs = frames.flatten(1)", "data": "torch.rand(2, 8, 4).transpose(0, 1)"},
    {"view": "inputs = frames.reshape(8, 8).float()", "data": "torch.rand(8, 2, 4, dtype=torch.float64)"},
    {"view": "inputs = frames.flatten(1)", "change": f"inputs = {MASK.replace('fill_', 'fill')}"},
    # What was passed is not read again.
    {"view": "inputs = frames.flatten(1)", "call": "noise = torch.rand(8, 2, 4)\n    seen, hidden = hide(noise)"},
)


@pytest.mark.parametrize("parts", SHARED)
def test_an_argument_that_a_function_changes_through_a_view_is_told(parts: dict[str, str], tmp_path: Path) -> None:
    assert_first_alarm(HEAD + HIDDEN.format(**PARTS | parts) + TRAIN, CAUSE, tmp_path)


@pytest.mark.parametrize("parts", NEW_MEMORY)
def test_an_argument_that_stays_as_it_is_may_be_read(parts: dict[str, str], tmp_path: Path) -> None:
    assert CAUSE not in causes(HEAD + HIDDEN.format(**PARTS | parts) + TRAIN, tmp_path)
