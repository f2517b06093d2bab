"""Learning rates that a program writes into the groups, as a part of the one that it made the optimizer with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

EPOCHS = """
model, base, done = nn.Linear(4, 1), 0.1, 0
optimizer = torch.optim.{made}
def rate(step, warm):
    return base * min(1.0, (step + 1) / warm)
for epoch in range(4):
    {each_epoch}
    for batch in range(6):
        {each_batch}
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        done += 1
"""
SGD = "SGD(model.parameters(), lr=base)"
TOLD = (
    (SGD, "for group in optimizer.param_groups:\n        group['lr'] = rate(epoch, 60)  # HERE"),
    (SGD, "optimizer.param_groups[0]['lr'] = base * (1 + epoch) / 80  # HERE"),
    ("AdamW([dict(params=model.parameters(), lr=0.1)])",
     "for group in optimizer.param_groups: group['lr'] = 0.1 * min(1, (epoch + 1) / 40)  # HERE"),
)  # fmt: skip
RIGHT = (
    (SGD, "pass", "optimizer.param_groups[0]['lr'] = rate(done, 12)"),
    (SGD, "optimizer.param_groups[0]['lr'] = rate(epoch, 4)", "pass"),
    (SGD, "optimizer.param_groups[0]['lr'] = base * 0.9**epoch / 20", "pass"),
    # the optimizer was made with a number that means nothing
    ("SGD(model.parameters(), lr=1.0)", "optimizer.param_groups[0]['lr'] = rate(epoch, 4) / 2", "pass"),
    (SGD, "optimizer.param_groups[0]['lr'] = 0.002 * min(1.0, (epoch + 1) / 4)", "pass"),
)


@pytest.mark.parametrize(("made", "each_epoch"), TOLD)
def test_a_warm_up_by_hand_that_counts_epochs_for_steps_is_told(made: str, each_epoch: str, tmp_path: Path) -> None:
    script = HEAD + EPOCHS.format(made=made, each_epoch=each_epoch, each_batch="pass")
    assert_first_alarm(script, "warmup_never_ends", tmp_path)


@pytest.mark.parametrize(("made", "each_epoch", "each_batch"), RIGHT)
def test_warm_ups_that_end_and_other_rates_are_right(
    made: str, each_epoch: str, each_batch: str, tmp_path: Path
) -> None:
    script = HEAD + EPOCHS.format(made=made, each_epoch=each_epoch, each_batch=each_batch)
    assert "warmup_never_ends" not in {each.cause for each in alarms(script, tmp_path)}
