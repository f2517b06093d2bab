"""Meta learning whose adapted weights have no part in the loss, and code that looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

_TASKS = """
net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def error(weights, x, y):
    return F.mse_loss(torch.func.functional_call(net, weights, (x,)), y)
def adapt(weights, x, y):
    for _ in range(2):
        grads = torch.autograd.grad(error(weights, x, y), list(weights.values()), create_graph=True)
        weights = {key: w - 0.1 * g for (key, w), g in zip(weights.items(), grads)}
    return weights
for step in range(5):
    total = 0.0
    for task in range(3):
        rule = torch.randn(2, 1)
        near, far = torch.randn(8, 2), torch.randn(8, 2)
        BODY
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""
_COPIES = """
net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    for task in range(3):
        rule, near, far = torch.randn(2, 1), torch.randn(8, 2), torch.randn(8, 2)
        learner = copy.deepcopy(net)
        inner = torch.optim.SGD(learner.parameters(), lr=0.1)
        for _ in range(2):
            inner.zero_grad()
            F.mse_loss(learner(near), near @ rule).backward()
            inner.step()
        BODY
    optimizer.step()
"""


def of(script: str, *lines: str) -> str:
    return HEAD + script.replace("BODY", "\n        ".join(lines))


_ADAPT = "adapted = adapt(dict(net.named_parameters()), near, near @ rule)"


@pytest.mark.parametrize(
    "script",
    [
        of(_TASKS, _ADAPT, "total = total + F.mse_loss(net(far), far @ rule)  # HERE"),
        of(_TASKS, _ADAPT, "total = total + error(dict(net.named_parameters()), far, far @ rule)  # HERE"),
        of(_COPIES, "F.mse_loss(net(far), far @ rule).backward()  # HERE"),
    ],
    ids=["the model itself", "its own weights", "a copy that is left behind"],
)
def test_adapted_weights_that_no_loss_takes(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "adapted_and_not_used", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        of(_TASKS, _ADAPT, "total = total + error(adapted, far, far @ rule)"),
        # The adapted weights are only scored.
        of(
            _TASKS,
            _ADAPT,
            "total = total + F.mse_loss(net(far), far @ rule)",
            "print(error(adapted, far, far @ rule).item())",
        ),
        # The model moves towards its copy.
        of(
            _COPIES,
            "for p, q in zip(net.parameters(), learner.parameters()):",
            "    p.grad = p.detach() - q.detach()",
        ),
        # A copy that is only measured.
        of(
            _COPIES, "print(F.mse_loss(learner(far), far @ rule).item())", "F.mse_loss(net(far), far @ rule).backward()"
        ),
        # Copies that are tuned with other rates, behind the training.
        HEAD
        + """
net, x = nn.Linear(4, 1), torch.randn(20, 4)
def train(model, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step in range(3):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()
train(net, 0.1)
print([train(copy.deepcopy(net), rate) for rate in (0.3, 0.1, 0.03, 0.01)])
""",
        # One model for all parts of the data, and one for each part that stays near it.
        HEAD
        + """
x, y = torch.randn(60, 5), torch.randn(60, 1)
whole = nn.Linear(5, 1)
own = [copy.deepcopy(whole) for _ in range(3)]
optimizer = torch.optim.SGD(whole.parameters(), lr=0.05)
steps = [torch.optim.SGD(model.parameters(), lr=0.05) for model in own]
for turn in range(4):
    for part in range(3):
        rows = slice(20 * part, 20 * part + 20)
        near = sum((p - q.detach()).square().sum() for p, q in zip(own[part].parameters(), whole.parameters()))
        loss = F.mse_loss(own[part](x[rows]), y[rows]) + 0.1 * near
        steps[part].zero_grad()
        loss.backward()
        steps[part].step()
        loss = F.mse_loss(whole(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        # How fast a copy learns a new task is measured at the end of each epoch.
        HEAD
        + """
x, y = torch.randn(60, 5), torch.randint(3, (60,))
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    loss = F.cross_entropy(model(x[:40]), y[:40])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    probe, losses = copy.deepcopy(model), []
    probe_optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
    for _ in range(3):
        loss = F.cross_entropy(probe(x[40:]), y[40:])
        probe_optimizer.zero_grad()
        loss.backward()
        probe_optimizer.step()
        losses.append(loss.item())
    print(losses[0] - losses[-1])
""",
    ],
    ids=["taken", "scored", "moved towards", "a measured copy", "other rates", "in turns", "measured in each epoch"],
)
def test_adapted_weights_with_a_part(script: str, tmp_path: Path) -> None:
    assert "adapted_and_not_used" not in {each.cause for each in alarms(script, tmp_path)}


def test_meta_learning_that_is_scored_between_steps(tmp_path: Path) -> None:
    params = "dict(net.named_parameters())"
    script = of(_TASKS, _ADAPT, f"total = total + error({params}, far, far @ rule)  # HERE") + (
        "    if step % 2:\n"
        f"        scored = adapt({params}, near, near @ rule)\n"
        "        with torch.no_grad():\n"
        "            print(error(scored, far, far @ rule).item())\n"
    )
    assert_first_alarm(script, "adapted_and_not_used", tmp_path)
    assert [each.cause for each in alarms(script, tmp_path)] == ["adapted_and_not_used"]


_DETACHED = "{key: (w - 0.1 * g).detach().requires_grad_() for (key, w), g in zip(weights.items(), grads)}  # HERE"
_BY_ADAPTED = of(_TASKS, _ADAPT, "total = total + error(adapted, far, far @ rule)")


def test_inner_steps_that_detach_what_they_adapt(tmp_path: Path) -> None:
    script = _BY_ADAPTED.replace("{key: w - 0.1 * g for (key, w), g in zip(weights.items(), grads)}", _DETACHED)
    assert_first_alarm(script, "detached", tmp_path)
    assert [each.cause for each in alarms(script, tmp_path)] == ["detached"]


def test_inner_steps_of_first_order_whose_gradients_are_assigned(tmp_path: Path) -> None:
    script = _BY_ADAPTED.replace("{key: w - 0.1 * g for (key, w), g in zip(weights.items(), grads)}", _DETACHED[:-8])
    script = script.replace("create_graph=True", "create_graph=False").replace(
        "        total = total + error(adapted, far, far @ rule)",
        "        given = torch.autograd.grad(error(adapted, far, far @ rule), list(adapted.values()))\n"
        "        for parameter, each in zip(net.parameters(), given):\n"
        "            parameter.grad = each if parameter.grad is None else parameter.grad + each",
    )
    script = script.replace(
        "    optimizer.zero_grad()\n    total.backward()\n    optimizer.step()\n", "    optimizer.step()\n"
    )
    script = script.replace("    total = 0.0\n", "    optimizer.zero_grad()\n")
    assert not alarms(script, tmp_path)
