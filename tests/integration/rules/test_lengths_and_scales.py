"""Schedules that count something else than what steps them, schedules that wait for the wrong side, losses that a
scaler did not multiply."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

DATA = """
model = nn.Linear(4, 3)
x, y = torch.randn(48, 4), torch.randint(0, 3, (48,))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
schedules = torch.optim.lr_scheduler
epochs, batches = 4, 6
best, kept = -1.0, {"best": -1.0}
def ndcg_at(scores):
    return scores.softmax(1).gather(1, y[:, None]).mean().item()
def f1_of(scores):
    return scores.softmax(1).gather(1, y[:, None]).mean().detach()
"""
EPOCHS = """
def train():
    for i in range(0, 48, 8):
        opt.zero_grad()
        loss = F.cross_entropy(model(x[i:i + 8]), y[i:i + 8])
        loss.backward()
        opt.step(){each_batch}
for epoch in range(epochs):
    train()
    {each_epoch}
"""


def _script(made: str, each_batch: str = "", each_epoch: str = "pass") -> str:
    inner = f"\n        {each_batch}" if each_batch else ""
    return HEAD + DATA + made + EPOCHS.format(each_batch=inner, each_epoch=each_epoch)


@pytest.mark.parametrize(
    "made",
    [
        "sch = schedules.OneCycleLR(opt, 0.5, epochs=epochs, steps_per_epoch=batches)",
        "sch = schedules.CosineAnnealingLR(opt, epochs * batches)",
        "sch = schedules.LinearLR(opt, 1.0, 0.1, total_iters=epochs * batches)",
        "sch = schedules.PolynomialLR(opt, total_iters=23)",
    ],
)
def test_a_schedule_for_all_batches_that_is_stepped_for_each_epoch_is_told(made: str, tmp_path: Path) -> None:
    script = _script(made, each_epoch="sch.step()  # HERE")
    assert_first_alarm(script, "schedule_counts_batches", tmp_path)


def test_a_warm_up_for_all_batches_is_told_once(tmp_path: Path) -> None:
    made = "sch = schedules.LinearLR(opt, 0.01, total_iters=epochs * batches)"
    found = alarms(_script(made, each_epoch="sch.step()"), tmp_path)
    assert [each.cause for each in found] == ["schedule_counts_batches"]


@pytest.mark.parametrize(
    ("made", "each_batch", "each_epoch"),
    [
        ("sch = schedules.OneCycleLR(opt, 0.5, epochs=epochs, steps_per_epoch=batches)", "sch.step()", "pass"),
        ("sch = schedules.CosineAnnealingLR(opt, T_max=epochs)", "", "sch.step()"),
        ("sch = schedules.LinearLR(opt, total_iters=5)", "", "sch.step()"),
        ("sch = schedules.CosineAnnealingLR(opt, T_max=200)", "", "sch.step()"),
        ("sch = schedules.ConstantLR(opt, factor=0.5, total_iters=24)", "", "sch.step()"),
        ("sch = schedules.CosineAnnealingWarmRestarts(opt, T_0=3)", "sch.step()", "pass"),
        ("sch = schedules.CosineAnnealingLR(opt, T_max=2 * batches)", "sch.step()", "pass"),
        ("sch = schedules.CosineAnnealingLR(opt, T_max=epochs // 2)", "", "sch.step()"),
    ],
)
def test_schedules_that_count_what_steps_them_are_right(
    made: str, each_batch: str, each_epoch: str, tmp_path: Path
) -> None:
    assert not alarms(_script(made, each_batch, each_epoch), tmp_path)


ACCUMULATED = """
from torch.optim import lr_scheduler as schedules
model = nn.Linear(4, 1)
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
{made}
for i in range({batches}):
    (model(torch.randn(8, 4)).square().mean() / 4).backward()
    if i % 4 == 3:
        opt.step()
        opt.zero_grad()
        sch.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "sch = schedules.OneCycleLR(opt, 0.1, total_steps=48)  # HERE",
        "sch = schedules.CosineAnnealingLR(opt, 6 * 8)  # HERE",
        "sch = schedules.LinearLR(opt, 1.0, 0.0, total_iters=48)  # HERE",
        "total = 48\nsch = schedules.LambdaLR(opt, lambda step: 1 - step / total)  # HERE",
        "from functools import partial\n"
        "def factor(step, *, warmup, total): return min((step + 1) / warmup, (total - step) / (total - warmup))\n"
        "sch = schedules.LambdaLR(opt, partial(factor, warmup=3, total=48))  # HERE",
        "def linear(total):\n    return lambda step: max(0.0, 1 - step / total)\n"
        "sch = schedules.LambdaLR(opt, linear(48))  # HERE",
        "warm = schedules.LinearLR(opt, 0.1, total_iters=6)\n"
        "down = schedules.CosineAnnealingLR(opt, T_max=48 - 6)  # HERE\n"
        "sch = schedules.SequentialLR(opt, [warm, down], milestones=[6])",
        "warm, down = schedules.LinearLR(opt, 0.1, total_iters=20), schedules.PolynomialLR(opt, 28)  # HERE\n"
        "sch = schedules.SequentialLR(opt, [warm, down], milestones=[20])",
        "class Decay:\n    def __init__(self, steps): self.steps = steps\n"
        "    def __call__(self, step): return 1 - step / self.steps\n"
        "sch = schedules.LambdaLR(opt, Decay(48))  # HERE",
    ],
)
def test_a_schedule_for_all_batches_of_accumulated_steps_is_told(made: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ACCUMULATED.format(made=made, batches=48), "schedule_counts_batches", tmp_path)


@pytest.mark.parametrize(
    ("made", "batches"),
    [
        ("sch = schedules.OneCycleLR(opt, 0.1, total_steps=48 // 4)", 48),
        ("sch = schedules.CosineAnnealingLR(opt, 200)", 48),
        ("total = 48 // 4\nsch = schedules.LambdaLR(opt, lambda step: max(0.1, 1 - step / total))", 48),
        ("total, each = 48, 4\nsch = schedules.LambdaLR(opt, lambda step: 1 - each * step / total)", 48),
        (
            "dim = 48\nsch = schedules.LambdaLR(opt, lambda step: dim**-0.5 * min((step + 1)**-0.5, (step + 1) * 0.1))",
            40,
        ),
        (
            "warm = schedules.LinearLR(opt, 0.1, total_iters=3)\n"
            "down = schedules.CosineAnnealingLR(opt, T_max=12 - 3)\n"
            "sch = schedules.SequentialLR(opt, [warm, down], milestones=[3])",
            48,
        ),
        (
            "one, other = schedules.LinearLR(opt, 0.5, total_iters=24), schedules.CosineAnnealingLR(opt, 24)\n"
            "sch = schedules.ChainedScheduler([one, other])",
            48,
        ),
        # A training that ends before the cycle does.
        ("total = 48\nsch = schedules.LambdaLR(opt, lambda step: 1 - step / total)", 32),
        ("sch = schedules.OneCycleLR(opt, 0.1, total_steps=48)", 32),
    ],
)
def test_a_schedule_for_the_steps_and_a_longer_one_are_right(made: str, batches: int, tmp_path: Path) -> None:
    assert not alarms(HEAD + ACCUMULATED.format(made=made, batches=batches), tmp_path)


COUNTED_BEFORE = """
def schedule_for(opt, total):
    def factor(step):
        return 1 - step / max(1, total)
    return torch.optim.lr_scheduler.LambdaLR(opt, factor)
data = list(torch.randn(12, 8, 4))
model = nn.Linear(4, 1)
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
total = len(data) * 3  # HERE
sch = schedule_for(opt, total)
for epoch in range(3):
    for i, x in enumerate(data):
        (model(x).square().mean() / 4).backward()
        if (i + 1) % 4 == 0:
            opt.step()
            sch.step()
            opt.zero_grad()
"""


WARMED_UP = """
from torch.optim import lr_scheduler as schedules
model = nn.Linear(4, 1)
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
x = torch.randn(96, 4)
loader = torch.utils.data.DataLoader(x, batch_size=4)
total = 2 * len(loader) // {each}
warm = int({part} * total)
sch = schedules.SequentialLR(
    opt, [schedules.LinearLR(opt, 0.1, total_iters=warm), schedules.CosineAnnealingLR(opt, total - warm)], [warm]
)
for epoch in range(2):
    for i, batch in enumerate(loader, start=1):
        (model(batch).square().mean() / {each}).backward()
        if i % {each} == 0:
            opt.step()
            opt.zero_grad()
            sch.step()
"""


@pytest.mark.parametrize(("each", "part"), [(1, 0.1), (1, 0.3), (2, 0.2), (2, 0.25)])
def test_a_warm_up_that_another_schedule_follows_is_no_alarm(each: int, part: float, tmp_path: Path) -> None:
    assert not alarms(HEAD + WARMED_UP.format(each=each, part=part), tmp_path)


def test_the_line_that_counts_batches_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + COUNTED_BEFORE, "schedule_counts_batches", tmp_path)
    mended = HEAD + COUNTED_BEFORE.replace("len(data) * 3", "len(data) // 4 * 3")
    assert not alarms(mended, tmp_path)


LOADER = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(x, y), batch_size=8)
{made}
for epoch in range(5):
    for part, labels in loader:
        opt.zero_grad()
        F.cross_entropy(model(part), labels).backward()
        opt.step()
    scheduler.step()  # HERE
"""
FUNCTION = """
def make(optimizer, warm_up, total):
    def factor(step):
        return min((step + 1) / warm_up, max(0.0, (total - step) / total))
    return schedules.LambdaLR(optimizer, factor)
"""


@pytest.mark.parametrize(
    "made",
    [
        "scheduler = schedules.MultiStepLR(opt, [2 * len(loader), 4 * len(loader)])",
        "every = 2 * len(loader)\nscheduler = schedules.StepLR(opt, step_size=every)",
        "scheduler = schedules.LinearLR(opt, 0.01, total_iters=len(loader))",
        "total = 5 * len(loader)\nscheduler = schedules.LambdaLR(opt, lambda step: 1 - step / total)",
        f"{FUNCTION}scheduler = make(opt, 3, 5 * len(loader))",
        "inner = [schedules.LinearLR(opt, 0.1, total_iters=len(loader)),\n"
        "         schedules.CosineAnnealingLR(opt, 4 * len(loader))]\n"
        "scheduler = schedules.SequentialLR(opt, inner, milestones=[len(loader)])",
    ],
)
def test_a_length_that_is_made_of_the_number_of_batches_is_told(made: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DATA + LOADER.format(made=made), "schedule_counts_batches", tmp_path)


BY_HAND = """
size, epochs = 8, 4
n_batches = len(x) // size
def ramp(total):
    for k in range(total):
        yield 0.1 * (k + 1) / total
def set_rate(opt, rate):
    for group in opt.param_groups:
        group["lr"] = rate
class Ramp:
    def __init__(self, opt, total):
        self.opt, self.total, self.t = opt, total, 0
    def step(self):
        self.t += 1
        for group in self.opt.param_groups:
            group["lr"] = 0.1 * (self.t + 1) / self.total
{made}
for epoch in range(epochs):
    {each_epoch}
    for rows in torch.randperm(len(x)).split(size):
        {each_batch}
        opt.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        opt.step()
"""
TOTAL = "epochs * n_batches"


@pytest.mark.parametrize(
    ("made", "each_epoch"),
    [
        (f"rates = ramp({TOTAL})", "set_rate(opt, next(rates))  # HERE"),
        (f"rates = list(ramp({TOTAL}))", "set_rate(opt, rates[epoch])  # HERE"),
        (f"schedule = Ramp(opt, {TOTAL})", "schedule.step()  # HERE"),
        (f"total = {TOTAL}", 'opt.param_groups[0]["lr"] = 0.1 * (1 + epoch) / total  # HERE'),
        (
            f"total = {TOTAL}",
            "rate = 0.1 * (1 - epoch / total)  # HERE\n    for group in opt.param_groups:\n        group['lr'] = rate",
        ),
    ],
)
def test_rates_for_all_batches_that_are_set_for_each_epoch_are_told(made: str, each_epoch: str, tmp_path: Path) -> None:
    script = HEAD + DATA + BY_HAND.format(made=made, each_epoch=each_epoch, each_batch="pass")
    assert_first_alarm(script, "schedule_counts_batches", tmp_path)


@pytest.mark.parametrize(
    ("made", "each_epoch", "each_batch"),
    [
        (f"rates = ramp({TOTAL})", "pass", "set_rate(opt, next(rates))"),
        ("rates = ramp(epochs)", "set_rate(opt, next(rates))", "pass"),
        (f"schedule = Ramp(opt, {TOTAL})", "pass", "schedule.step()"),
        (f"total = {TOTAL}", "set_rate(opt, 0.1 * (1 + epoch * n_batches) / total)", "pass"),
        (f"print({TOTAL})", "set_rate(opt, 0.1 * 0.5**epoch)", "pass"),
    ],
)
def test_rates_that_count_what_sets_them_are_right(made: str, each_epoch: str, each_batch: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + DATA + BY_HAND.format(made=made, each_epoch=each_epoch, each_batch=each_batch), tmp_path)


@pytest.mark.parametrize(
    "made",
    [
        "scheduler = schedules.MultiStepLR(opt, [20, 40])",
        "scheduler = schedules.CosineAnnealingLR(opt, T_max=30 // len(loader))",
        "scheduler = schedules.LambdaLR(opt, lambda epoch: 1 / (1 + 0.01 * (epoch * len(loader))))",
        "total = len([*range(5)])\nscheduler = schedules.LambdaLR(opt, lambda epoch: 1 - epoch / total)",
    ],
)
def test_a_length_that_counts_epochs_is_left_alone(made: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + DATA + LOADER.format(made=made), tmp_path)


@pytest.mark.parametrize(
    "made",
    [
        "sch = schedules.CosineAnnealingLR(opt, T_max=epochs)",
        "sch = schedules.CosineAnnealingLR(\n    opt,\n    T_max=epochs,\n)",
        "epochs, n_epochs = 2, 2\nsch = schedules.CosineAnnealingLR(opt, n_epochs, eta_min=1e-4)",
    ],
)
def test_a_cosine_for_epochs_that_goes_on_for_batches_is_told(made: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(made, each_batch="sch.step()  # HERE"), "schedule_repeats", tmp_path)


def test_a_cosine_whose_length_is_the_bound_of_the_loop_over_epochs_is_told(tmp_path: Path) -> None:
    script = _script("sch = schedules.CosineAnnealingLR(opt, T_max=7)", each_batch="sch.step()  # HERE")
    assert not alarms(script, tmp_path)
    assert_first_alarm(script.replace("range(epochs)", "range(1, 7 + 1)"), "schedule_repeats", tmp_path)


LOSSES = (
    "total = 0.0\n    for _ in range(2):\n        loss = F.cross_entropy(model(x), y)\n"
    "        total {} loss.item()\n    sch.step({})"
)
ACCURACY = "acc = (model(x).argmax(1) == y).float().mean().item(); "


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("schedules.ReduceLROnPlateau(opt)", ACCURACY + "sch.step(acc)"),
        ("schedules.ReduceLROnPlateau(opt, 'min')", "sch.step((model(x).max(1)[1] == y).sum() / 48)"),
        ("schedules.ReduceLROnPlateau(opt, 'max')", "sch.step(F.cross_entropy(model(x), y).detach())"),
        (
            "schedules.ReduceLROnPlateau(opt, factor=0.5)",
            "val = {'f1_score': sum(a == b for a, b in zip(model(x).argmax(1).tolist(), y.tolist())) / 48}; "
            "sch.step(metrics=val['f1_score'])",
        ),
        (
            "schedules.ReduceLROnPlateau(opt)",
            "hits = torch.zeros(())\n    hits += (model(x).argmax(1) == y).sum()\n    sch.step(hits / 48)",
        ),
        ("schedules.ReduceLROnPlateau(opt, 'max')", "valLoss = epoch + 0.25; sch.step(valLoss)"),
        ("schedules.ReduceLROnPlateau(opt, 'max')", LOSSES.format("+=", "total / 2")),
        ("schedules.ReduceLROnPlateau(opt, 'max')", LOSSES.format("+=", "metrics=total")),
        ("schedules.ReduceLROnPlateau(opt)", "score = ndcg_at(model(x)); sch.step(score)"),
        ("schedules.ReduceLROnPlateau(opt)", "score = f1_of(model(x)); sch.step(score)"),
        (
            "schedules.ReduceLROnPlateau(opt)",
            "score = 0.5 + epoch; sch.step(score)\n    if epoch and score > kept['best']:\n"
            "        kept['best'] = score",
        ),
        ("schedules.ReduceLROnPlateau(opt)", "score = 0.5 + epoch; sch.step(score); best = max(best, score)"),
        (
            "schedules.ReduceLROnPlateau(opt, 'max')",
            "score = 2.5 - epoch / 9; sch.step(score)\n    if best < 0 or best > score:\n"
            "        best, at = score, epoch",
        ),
    ],
)
def test_a_schedule_that_waits_for_the_wrong_side_is_told(made: str, told: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(f"sch = {made}  # HERE", each_epoch=told), "plateau_of_wrong_side", tmp_path)


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("max", ACCURACY + "sch.step(acc)"),
        ("min", ACCURACY + "sch.step(1 - acc)"),
        ("min", ACCURACY + "acc = -acc; sch.step(acc)"),
        ("min", "sch.step((model(x).argmax(1) != y).float().mean())"),
        ("min", "sch.step(F.cross_entropy(model(x), y).detach())"),
        ("max", "sch.step(-F.cross_entropy(model(x), y).detach())"),
        ("min", LOSSES.format("+=", "total / 2")),
        ("max", LOSSES.format("+= -", "total / 2")),
        ("max", LOSSES.format("-=", "total / 2")),
        ("min", "score = 0.5 - 0.1 * epoch; sch.step(score)"),
        ("min", "acc_loss = 0.5 + epoch; sch.step(acc_loss)"),
        ("max", "score = ndcg_at(model(x)); sch.step(score)"),
        ("min", "score = ndcg_at(model(x)); sch.step(1 - score); best = max(best, score)"),
        ("min", "score = 0.5 + epoch; sch.step(score)\n    if score < best:\n        best = score"),
        ("min", "score = 0.5 + epoch; sch.step(score)\n    if score > best:\n        worse = epoch"),
        ("min", "score = 0.5 + epoch; sch.step(score); worst = max(best, score)"),
    ],
)
def test_schedules_that_wait_for_the_better_side_are_right(mode: str, told: str, tmp_path: Path) -> None:
    assert not alarms(_script(f"sch = schedules.ReduceLROnPlateau(opt, '{mode}')", each_epoch=told), tmp_path)


SCALED = """
first, second = nn.Linear(4, 3), nn.Linear(4, 3)
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
one, two = torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.Adam(second.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for step in range(4):
    loss, other = F.cross_entropy(first(x), y), F.cross_entropy(second(x), y)
    one.zero_grad()
    two.zero_grad()
"""


@pytest.mark.parametrize(
    "body",
    [
        "scaler.scale(loss).backward()\nscaler.step(one)\nother.backward()  # HERE\nscaler.step(two)\nscaler.update()",
        "scaler.scale(loss)\nloss.backward()  # HERE\nscaler.unscale_(one)\n"
        "nn.utils.clip_grad_norm_(first.parameters(), 1.0)\nscaler.step(one)\nscaler.update()",
        "scaler.scale(other).backward()\ntorch.autograd.backward(loss)  # HERE\n"
        "for opt in (one, two):\n    scaler.step(opt)\nscaler.update()",
        "loss.backward()  # HERE\nscaler.step(one)\nscaler.update()",
        "loss.backward()  # HERE\nscaler.unscale_(one)\nscaler.step(one)\nscaler.update()",
    ],
)
def test_a_loss_that_the_scaler_did_not_multiply_is_told(body: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SCALED + _inner(body), "unscaled_loss", tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "scaler.scale(loss).backward()\nscaler.step(one)\nscaler.scale(other).backward()\nscaler.step(two)",
        "scaler.scale(loss + other).backward()\nscaler.unscale_(one)\nscaler.step(one)\nscaler.step(two)",
        "scaler.scale(loss).backward()\n(other * scaler.get_scale()).backward()\nscaler.step(one)\nscaler.step(two)",
        "other.backward()\nscaler.scale(loss).backward()\nscaler.step(one)\ntwo.step()",
        "parts = scaler.scale([loss, other])\nsum(parts).backward()\nscaler.step(one)\nscaler.step(two)",
    ],
)
def test_losses_that_are_scaled_or_need_no_scaler_are_right(body: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + SCALED + _inner(f"{body}\nscaler.update()"), tmp_path)


def test_a_step_on_scaled_gradients_that_the_scaler_refuses_to_follow_is_told(tmp_path: Path) -> None:
    body = "scaler.scale(loss).backward()\none.step()  # HERE\nscaler.update()"
    assert_first_alarm(HEAD + SCALED + _inner(body), "clip_misplaced", tmp_path)


SCALED_BY_HAND = """
model, scale = nn.Linear(4, 3), torch.tensor(512.0)
x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def is_finite(grads):
    return all(torch.isfinite(g).all() for g in grads)
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y{sum})
    {backward}
    grads = [p.grad for p in model.parameters()]
    {divide}
    if is_finite(grads):
        optimizer.step()
"""
DIVISIONS = (
    "torch._foreach_div_(grads, 1024.0)",
    "torch._foreach_mul_(grads, 1 / 1024)",
    "[g.mul_(1 / scale) for g in grads]",
    "for p in model.parameters(): p.grad /= scale",
    "for p in model.parameters(): p.grad.data.div_(2.0**12)",
)


@pytest.mark.parametrize("divide", DIVISIONS)
def test_a_loss_that_a_scaler_by_hand_did_not_multiply_is_told(divide: str, tmp_path: Path) -> None:
    script = HEAD + SCALED_BY_HAND.format(sum="", backward="loss.backward()  # HERE", divide=divide)
    assert_first_alarm(script, "unscaled_loss", tmp_path)


@pytest.mark.parametrize(
    ("backward", "divide", "total"),
    [
        ("(loss * 1024.0).backward()", DIVISIONS[0], ""),
        ("(scale * loss).backward()", DIVISIONS[2], ""),
        ("loss.backward(scale)", DIVISIONS[3], ""),
        ("(loss * 32 * 32).backward()", DIVISIONS[0], ""),
        ("loss.backward()", "torch._foreach_div_(grads, 3.0)", ""),
        ("loss.backward()", "torch._foreach_div_(grads, 16.0)", ", reduction='sum'"),
        ("[F.cross_entropy(model(x), y).backward() for _ in range(16)]", "torch._foreach_div_(grads, 16.0)", ""),
    ],
)
def test_scaled_losses_sums_and_accumulated_gradients_are_right(
    backward: str, divide: str, total: str, tmp_path: Path
) -> None:
    script = HEAD + SCALED_BY_HAND.format(sum=total, backward=backward, divide=divide)
    script = script.replace("(6, 4)", "(16, 4)").replace("(6,)", "(16,)") if total else script
    assert "unscaled_loss" not in {each.cause for each in alarms(script, tmp_path)}


def _inner(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.splitlines())
