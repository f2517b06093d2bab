"""Parameters that are frozen in the middle of a training: whether their optimizer still moves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

TRAINING = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.{optimizer}
for step in range(8):
    {middle}
    x = torch.randn(8, 4)
    loss = F.mse_loss(net(x), x[:, :1])
    {clear}
    loss.backward()
    optimizer.step()
"""
DECAY = "AdamW(net.parameters(), lr=0.01, weight_decay=0.1)"
MOMENTUM = "SGD(net.parameters(), lr=0.1, momentum=0.9)"
ZEROS = "optimizer.zero_grad(set_to_none=False)"
FREEZE = "if step == 4: net[0].requires_grad_(False)"
FAULTY = (
    (DECAY, FREEZE + "  # HERE", ZEROS),
    (MOMENTUM, "if step == 4:\n        for p in net[0].parameters(): p.requires_grad = False  # HERE", ZEROS),
    ("SGD(net.parameters(), lr=0.1)", FREEZE + "  # HERE", "for p in net[2].parameters(): p.grad = None\n"
     "    if step < 4: optimizer.zero_grad()"),
)  # fmt: skip
HEALTHY = (
    (DECAY, FREEZE, "optimizer.zero_grad()"),
    # Zeros alone move nothing, nor does a step that has no .grad.
    ("SGD(net.parameters(), lr=0.1)", FREEZE, ZEROS),
    (MOMENTUM, FREEZE + "; net[0].weight.grad = net[0].bias.grad = None", "net[2].zero_grad(set_to_none=False)\n"
     "    if step < 4: optimizer.zero_grad()"),
    # Frozen for a forward, and trained again.
    (DECAY, "net[0].requires_grad_(step % 2 == 0)", "optimizer.zero_grad()"),
)  # fmt: skip


@pytest.mark.parametrize(("optimizer", "middle", "clear"), FAULTY)
def test_frozen_parameters_that_move_are_told(optimizer: str, middle: str, clear: str, tmp_path: Path) -> None:
    script = HEAD + TRAINING.format(optimizer=optimizer, middle=middle, clear=clear)
    assert_first_alarm(script, "frozen_still_moves", tmp_path)


@pytest.mark.parametrize(("optimizer", "middle", "clear"), HEALTHY)
def test_frozen_parameters_that_stay_raise_no_alarm(optimizer: str, middle: str, clear: str, tmp_path: Path) -> None:
    script = HEAD + TRAINING.format(optimizer=optimizer, middle=middle, clear=clear)
    assert "frozen_still_moves" not in {each.cause for each in alarms(script, tmp_path)}


UNFROZEN = """
encoder, decoder, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 4), nn.Linear(8, 1)
first = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    first.zero_grad()
    F.mse_loss(decoder(encoder(x)), x).backward()
    first.step()
encoder.requires_grad_(False)
optimizer = torch.optim.SGD({parameters}, lr=0.1)
for step in range(6):
    if step == 3:
        encoder.requires_grad_(True)  # HERE
    x = torch.randn(8, 4)
    loss = F.mse_loss(head(encoder(x)), x[:, :1])
    encoder.zero_grad()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {also}
"""
WITHOUT = "[p for m in (encoder, head) for p in m.parameters() if p.requires_grad]"


def test_what_only_the_optimizer_of_an_earlier_phase_has_is_told_where_it_is_unfrozen(tmp_path: Path) -> None:
    script = HEAD + UNFROZEN.format(parameters=WITHOUT, also="pass")
    assert_first_alarm(script, "stale_optimizer_params", tmp_path)


@pytest.mark.parametrize(
    ("parameters", "also"), [("[*encoder.parameters(), *head.parameters()]", "pass"), (WITHOUT, "first.step()")]
)
def test_what_an_optimizer_that_steps_has_is_trained(parameters: str, also: str, tmp_path: Path) -> None:
    script = HEAD + UNFROZEN.format(parameters=parameters, also=also)
    assert "stale_optimizer_params" not in {each.cause for each in alarms(script, tmp_path)}


def test_a_batch_normalization_at_rest_that_an_optimizer_has_is_left_alone(tmp_path: Path) -> None:
    program = (
        HEAD
        + """
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
for step in range(8):
    if step % 4 == 0:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if step >= 4:
        net[1].eval().requires_grad_(False)
    x = torch.randn(8, 4)
    loss = F.mse_loss(net(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    )
    assert not alarms(program, tmp_path)
    assert_first_alarm(
        program.replace("net[1].eval().requires_grad_(False)", "net[0].requires_grad_(False)  # HERE"),
        "requires_grad_false",
        tmp_path,
    )
