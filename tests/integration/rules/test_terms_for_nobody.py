"""Terms of a loss that go through the model of another optimizer, behind a cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

PLAYERS = """
maker = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
judge = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
for_maker, for_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
softplus, pool = F.softplus, []


def seen(batch):
    pool.extend(batch.data)
    return torch.stack([pool.pop() for _ in range(len(batch))])


def scored(batch, sign):
    return softplus(sign * judge(batch)).mean()


for step in range(4):
    x, real = torch.randn(6, 3), torch.randn(6, 2) + 1
{body}
"""
JUDGE = """
    for_judge.zero_grad()
    (scored(real, -1) + scored({shown}, 1)).backward()
    for_judge.step()
"""
MAKER = """
    for_maker.zero_grad()
    distance = F.l1_loss(made, x[:, :2])
    {loss}.backward()
    for_maker.step()
"""
UNTAUGHT = (
    # Both players get what is meant for one of them.
    "    made = maker(x)\n    shown = made.detach()"
    + JUDGE.format(shown="shown")
    + MAKER.format(loss="total = distance + scored(shown, -1)  # HERE\n    total"),
    # The first player's turn comes first, and the other one is frozen during it.
    "    made = maker(x)\n    shown = seen(made)\n    judge.requires_grad_(False)"
    + MAKER.format(loss="adversarial = scored(shown, -1)  # HERE\n    (adversarial + 3 * distance)")
    + "    judge.requires_grad_(True)"
    + JUDGE.format(shown="shown"),
    # Only the term is cut, by another call.
    "    made = maker(x)"
    + JUDGE.format(shown="made.detach()")
    + "    with torch.no_grad():  # HERE\n        again = maker(x)"
    + MAKER.format(loss="torch.stack([distance, 0.1 * scored(again, -1)]).sum()"),
    "    made = maker(x)"
    + JUDGE.format(shown="made.detach()")
    + "    shown = torch.from_numpy(made.detach().numpy() * 1.0)  # HERE"
    + MAKER.format(loss="(distance - judge(shown).mean())"),
)
TAUGHT = (
    # The term has its path, although the other player's loss has a cut.
    "    made = maker(x)" + JUDGE.format(shown="made.detach()") + MAKER.format(loss="(distance + scored(made, -1))"),
    # The judge's part of the same sum is cut, and both step.
    "    made = maker(x)\n    for_maker.zero_grad()\n    for_judge.zero_grad()\n"
    "    (F.l1_loss(made, x[:, :2]) + scored(made.detach(), 1) + scored(real, -1)).backward()\n"
    "    for_maker.step()\n    for_judge.step()",
    # One sum for both turns: the other term goes through the judge.
    "    for optimizer, one, other in ((for_judge, 0, 1), (for_maker, 1, 0)):\n"
    "        made = maker(x)\n        judge.requires_grad_(optimizer is for_judge)\n"
    "        maker.requires_grad_(optimizer is for_maker)\n        optimizer.zero_grad()\n"
    "        (F.l1_loss(made, x[:, :2]) + scored(made, -1) * one + scored(made.detach(), 1)).backward()\n"
    "        optimizer.step()",
    # A probe of cut features learns from its term.
    "    made = maker(x)"
    + MAKER.format(loss="(distance + scored(made.detach(), 1))")
    + "    for_judge.step()\n    for_judge.zero_grad()",
    # A value that is weighed by a cut number, and a cut state that the same optimizer made.
    "    made = maker(x)"
    + JUDGE.format(shown="made.detach()")
    + MAKER.format(loss="(distance + scored(made, -1) * distance.detach() + (made - made.detach()).square().mean())"),
    # The judge is asked about data; nothing of it was cut.
    "    made = maker(x)"
    + JUDGE.format(shown="made.detach()")
    + MAKER.format(loss="(distance + scored(made, -1) + 0 * scored(real, -1).detach())"),
    # The judge learns from the same term in its own turn.
    "    made = maker(x)"
    + MAKER.format(loss="(distance + scored(made.detach(), 1))")
    + "    for_judge.zero_grad()\n    scored(made.detach(), 1).backward()\n    for_judge.step()",
    # A first phase trains one of the two alone, with the loss of both.
    "    made = maker(x)\n    loss = F.l1_loss(made, x[:, :2]) + scored(made.detach(), 1)\n"
    "    for_maker.zero_grad()\n    for_judge.zero_grad()\n"
    "    if step < 2:\n        loss.backward()\n        for_maker.step()\n    else:\n"
    "        loss.backward()\n        for_maker.step()\n        for_judge.step()",
    # Blocks that step by turns, all with one loss.
    "    made = maker(x)\n    loss = F.l1_loss(made, x[:, :2]) + scored(made.detach(), 1)\n    loss.backward()\n"
    "    (for_maker, for_judge)[step % 2].step()\n    for_maker.zero_grad()\n    for_judge.zero_grad()",
)


@pytest.mark.parametrize("body", UNTAUGHT)
def test_a_term_that_stops_in_the_model_of_another_optimizer_is_told(body: str, tmp_path: Path) -> None:
    script = HEAD + PLAYERS.replace("{body}", body)
    marked = [number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE")]
    found = [each.location.line for each in alarms(script, tmp_path) if each.code == "GV118" and each.location]
    assert found == marked


@pytest.mark.parametrize("body", TAUGHT)
def test_terms_that_teach_somebody_are_left_alone(body: str, tmp_path: Path) -> None:
    assert "GV118" not in [each.code for each in alarms(HEAD + PLAYERS.replace("{body}", body), tmp_path)]
