"""Teachers that set targets, models whose training is over, and rounds that begin with the values of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, findings


def causes(script: str, folder: Path) -> list[str]:
    return [each.cause for each in alarms(script, folder)]


DISTILLED = """
teacher = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
student = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 5))
optimizer = torch.optim.Adam([*teacher.parameters(), *student.parameters()], lr=0.01)
for step in range(6):
    x, y = torch.randn(16, 12), torch.randint(0, 5, (16,))
    with torch.no_grad():
        t = {computed}
    s = student({given})
    loss = F.cross_entropy(s, y) + {term}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TEACHERS = {
    "divergence": ("teacher(x)", "F.kl_div(F.log_softmax(s / 3, 1), F.softmax(t / 3, 1), reduction='batchmean') * 9"),
    "squares": ("F.normalize(teacher(x), dim=1)", "F.mse_loss(F.normalize(s, dim=1), t)"),
    "difference": ("teacher(x)", "(s - t).square().mean()"),
    "cross-entropy": ("torch.softmax(teacher(x), 1)", "(-t * torch.log_softmax(s, 1)).sum(1).mean()"),
}


@pytest.mark.parametrize("name", TEACHERS)
def test_a_teacher_that_only_sets_targets_is_a_note_though_the_optimizer_has_it(name: str, tmp_path: Path) -> None:
    computed, term = TEACHERS[name]
    found = findings(HEAD + DISTILLED.format(computed=computed, given="x", term=term), tmp_path)
    told = [each for each in found if each.cause == "no_grad_block"]
    assert [each.severity for each in told] == ["note"]
    assert "keep it out of the optimizer" in (told[0].fix or "")
    assert not [each for each in found if each.severity != "note"]


UNTRAINED = {
    "input of the student": ("teacher(x)", "F.pad(t, (0, 7))", "0"),
    "similarity": ("teacher(x)", "x", "F.cross_entropy(s @ t.t(), torch.arange(16))"),
    "baseline": ("teacher(x)[:, 0]", "x", "(-torch.log_softmax(s, 1)[:, 0] * (y - t)).mean()"),
    "shift of the scores": ("teacher(x)", "x", "torch.logsumexp(s - t, 1).mean()"),
}


@pytest.mark.parametrize("name", UNTRAINED)
def test_what_goes_into_the_prediction_without_gradients_is_an_error(name: str, tmp_path: Path) -> None:
    computed, given, term = UNTRAINED[name]
    found = findings(HEAD + DISTILLED.format(computed=computed, given=given, term=term), tmp_path)
    assert [each.severity for each in found if each.cause == "no_grad_block"] == ["error"]


TWO_PHASES = """
teacher = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
other = nn.Sequential(nn.Linear({size}, 16), nn.ReLU(), nn.Linear(16, {out}))
first, second = torch.optim.Adam(teacher.parameters(), 0.01), torch.optim.Adam(other.parameters(), 0.01)
data = [(torch.randn(16, 12), torch.randint(0, 5, (16,))) for _ in range(6)]
for x, y in data:
    first.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    first.step()
teacher.eval()
for x, y in data:
    loss = {loss}
    second.zero_grad()
    loss.backward()
    second.step()
{after}
"""
LEARNS_FROM_IT = "F.mse_loss(other(x), teacher(x))"
PAINTS_FOR_IT = "F.cross_entropy(teacher(other(x[:, :4])), y)"
TRAINS_ON = "for x, y in data:\n    first.zero_grad()\n    F.cross_entropy(teacher(x), y).backward()\n    first.step()"


@pytest.mark.parametrize("size, out, loss", [(12, 5, LEARNS_FROM_IT), (4, 12, PAINTS_FOR_IT)])
def test_a_model_whose_own_training_is_over_may_be_in_evaluation_mode(
    size: int, out: int, loss: str, tmp_path: Path
) -> None:
    assert "evaluation_mode" not in causes(HEAD + TWO_PHASES.format(size=size, out=out, loss=loss, after=""), tmp_path)


def test_a_model_that_trains_on_in_evaluation_mode_is_told(tmp_path: Path) -> None:
    code = HEAD + TWO_PHASES.format(size=12, out=5, loss=LEARNS_FROM_IT, after=TRAINS_ON)
    assert "evaluation_mode" in causes(code, tmp_path)


ATTACK = """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    model.eval()
    near = (x + 0.01 * torch.randn(16, 4)).requires_grad_()
    slope = torch.autograd.grad(F.cross_entropy(model(near), y), near)[0]
    near = near.detach() + 0.1 * slope.sign()
    {mode}
    loss = F.cross_entropy(model(x), y) + F.cross_entropy(model(near), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("mode", "is_told"), [("model.train()", False), ("model.requires_grad_()", True)])
def test_an_attack_in_evaluation_mode_is_no_training_in_it(*, mode: str, is_told: bool, tmp_path: Path) -> None:
    assert ("evaluation_mode" in causes(HEAD + ATTACK.format(mode=mode), tmp_path)) == is_told


ROUNDS = """
from torch.nn.utils import parameters_to_vector, vector_to_parameters
clients = [(torch.randn(32, 12), torch.randint(0, 5, (32,))) for _ in range(3)]
net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
server = [p.detach().clone() for p in net.parameters()]
whole = parameters_to_vector(net.parameters()).detach().clone()
for turn in range(2):
    results, vectors = [], []
    for x, y in clients:
        {begin}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for i in range(0, 32, 8):
            optimizer.zero_grad()
            F.cross_entropy(net(x[i : i + 8]), y[i : i + 8]).backward()
            optimizer.step()
            {end}
        results.append([p.detach().clone() for p in net.parameters()])
        vectors.append(parameters_to_vector(net.parameters()).detach().clone())
    server = [torch.stack(each).mean(0) for each in zip(*results)]
    whole = torch.stack(vectors).mean(0)
"""
BEGINNINGS = {
    "one vector": "vector_to_parameters(whole.clone(), net.parameters())",
    "data assigned": "for p, q in zip(net.parameters(), server): p.data = q.clone()",
    "copied": "with torch.no_grad(): [p.copy_(q) for p, q in zip(net.parameters(), server)]",
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_rounds_that_begin_with_the_values_of_a_server_may_make_their_optimizer(name: str, tmp_path: Path) -> None:
    found = causes(HEAD + ROUNDS.format(begin=BEGINNINGS[name], end="pass"), tmp_path)
    assert "optimizer_made_anew" not in found


@pytest.mark.parametrize("end", ["pass", "for p in net.parameters(): p.data = p.data.clamp(-1, 1)"])
def test_an_optimizer_made_anew_for_values_that_go_on_is_told(end: str, tmp_path: Path) -> None:
    found = causes(HEAD + ROUNDS.format(begin="pass", end=end), tmp_path)
    assert "optimizer_made_anew" in found


STAGES = """
net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
tasks = [(torch.randn(64, 12), torch.randint(0, 5, (64,))) for _ in range(4)]
def learn(x, y):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    {schedule}
    for rows in torch.randperm(64).split(16):
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {step}
{calls}
"""
ENDS = "schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps={})"


@pytest.mark.parametrize(
    ("schedule", "step", "calls"),
    [
        ("pass", "pass", "for x, y in tasks:\n    learn(x, y)"),
        ("pass", "pass", "def run():\n    for i, task in enumerate(tasks):\n        learn(*task)\nrun()"),
        ("pass", "pass", "for task in range(4):\n    learn(*tasks[task])"),
        ("pass", "pass", "learn(*tasks[0])\nlearn(*tasks[1])\nlearn(*tasks[0])"),
        ("pass", "pass", "for task in range(4):\n    x = torch.randn(64, 12) + task\n    learn(x, tasks[0][1])"),
        ("pass", "pass", "x, y = tasks[0]\nfor rnd in range(4):\n    x = torch.cat([x, x[:8]])\n    learn(x[-64:], y)"),
        (
            "pass",
            "pass",
            "for noise in (0.5, 0.2, 0.1):\n    learn(*tasks[0])\n    for _ in 'ab':\n        print(2 * noise)",
        ),
        (ENDS.format(4), "schedule.step()", "for generation in range(4):\n    learn(*tasks[generation])"),
    ],
)
def test_each_of_several_stages_may_have_its_own_optimizer(
    schedule: str, step: str, calls: str, tmp_path: Path
) -> None:
    script = HEAD + STAGES.format(schedule=schedule, step=step, calls=calls)
    found = findings(script, tmp_path)
    assert [each.cause for each in found if each.is_alarm] == []
    assert "optimizer_made_anew" in [each.cause for each in found]


SETTINGS = """
def tasks():
    for task in range(3):
        yield torch.randn(64, 12) + task, torch.randint(0, 5, (64,))
def run(weight):
    net = nn.Linear(12, 5)
    {loop}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for i in range(0, 64, 16):
            loss = weight * F.cross_entropy(net(x[i : i + 16]), y[i : i + 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
for weight in (0.5, 1.0):
    run(weight)
"""


@pytest.mark.parametrize(
    ("loop", "is_told"),
    [
        ("for number, (x, y) in enumerate(tasks()):", False),
        ("(x, y), *_ = tasks()\n    for epoch in range(4):", True),
    ],
)
def test_a_loop_that_makes_the_model_anew_makes_no_optimizer_anew(loop: str, is_told: bool, tmp_path: Path) -> None:
    assert ("optimizer_made_anew" in causes(HEAD + SETTINGS.format(loop=loop), tmp_path)) == is_told


def test_a_loop_of_the_same_function_that_makes_the_model_anew_is_left_out(tmp_path: Path) -> None:
    script = SETTINGS.replace("for weight in (0.5, 1.0):\n    run(weight)", "").replace(
        "def run(weight):", "for weight in dict(low=0.5, high=1.0).values():"
    )
    assert "optimizer_made_anew" not in causes(
        HEAD + script.format(loop="for number, (x, y) in enumerate(tasks()):"), tmp_path
    )


@pytest.mark.parametrize(
    ("schedule", "step", "calls"),
    [
        ("pass", "pass", "for epoch in range(4):\n    learn(*tasks[0])"),
        ("pass", "pass", "epochs = range(4)\nfor epoch in epochs:\n    for x, y in tasks:\n        learn(x, y)"),
        ("pass", "pass", "for rate in (0.1, 0.05, 0.01):\n    learn(*tasks[0])"),
        (ENDS.format(16), "schedule.step()", "for epoch in range(4):\n    learn(*tasks[0])"),
    ],
)
def test_an_optimizer_for_each_epoch_is_told(schedule: str, step: str, calls: str, tmp_path: Path) -> None:
    assert "optimizer_made_anew" in causes(HEAD + STAGES.format(schedule=schedule, step=step, calls=calls), tmp_path)


ANCHORED = """
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for task in range(3):
    old = copy.deepcopy(model)
    for step in range(4):
        x, y = torch.randn(16, 12), torch.randint(0, 5, (16,))
        loss = F.cross_entropy(model(x), y) + 0.1 * {term}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ANCHORS = {
    "each parameter": "sum((p - q).pow(2).sum() for p, q in zip(model.parameters(), old.parameters()))",
    "weighed": "sum((2 * (q - p).pow(2)).sum() for p, q in zip(model.parameters(), old.parameters()))",
    "one vector": "F.mse_loss(*[nn.utils.parameters_to_vector(m.parameters()) for m in (model, old)])",
}


@pytest.mark.parametrize("name", ANCHORS)
def test_the_values_of_a_copy_that_trained_ones_should_stay_near_are_no_target(name: str, tmp_path: Path) -> None:
    assert not {"stale_optimizer_params", "gradient_into_target"}.intersection(
        causes(HEAD + ANCHORED.format(term=ANCHORS[name]), tmp_path)
    )


@pytest.mark.parametrize(
    "term, cause",
    [
        ("F.mse_loss(model(x), old(x))", "gradient_into_target"),
        ("F.cross_entropy(old(x), y)", "stale_optimizer_params"),
    ],
)
def test_a_copy_that_computes_is_told(term: str, cause: str, tmp_path: Path) -> None:
    assert cause in causes(HEAD + ANCHORED.format(term=term), tmp_path)


def test_a_copy_that_follows_before_it_computes_keys_is_not_finished(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
import copy
def encoder():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
online = encoder()
slow = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.SGD(online.parameters(), lr=0.05)
for step in range(5):
    x = torch.randn(16, 8)
    q = F.normalize(online(x + 0.1 * torch.randn_like(x)), dim=1)
    with torch.no_grad():
        for a, b in zip(online.parameters(), slow.parameters()):
            b.data = 0.9 * b.data + 0.1 * a.data
        k = F.normalize(slow(x + 0.1 * torch.randn_like(x)), dim=1)
    loss = F.cross_entropy(q @ k.t() / 0.2, torch.arange(16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    )
    assert "training_mode" not in causes(script, tmp_path)
