"""What training code computes and never reads, positions that a loss should ask for, and targets that are inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

SETUP = """
embed, layer, head = nn.Embedding(10, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 9)
frames, model = nn.Linear(8, 8), nn.Linear(8, 10)
modules = nn.ModuleList([embed, layer, head, frames, model])
stand_in = nn.Parameter(torch.zeros(8))
optimizer = torch.optim.Adam([*modules.parameters(), stand_in], lr=0.01)
times = torch.linspace(0, 1, 4)

def step_size(i):
    return times[i + 1] - times[i]

def step_sizes(count):
    return [times[i + 1] - times[i] for i in range(count)]

def read(tokens):
    return head(layer(embed(tokens))[0])

for step in range(4):
    x, s = torch.randn(8, 8), torch.randn(8, 6, 8)
    labels = torch.randint(0, 9, (8,))
    tokens = torch.randint(0, 9, (8, 6))
"""
MASK = "    mask = torch.rand(8, 6) < 0.4\n"
HOT = "    hot = F.one_hot(labels, 10).float()\n    log_p = F.log_softmax(model(x), 1)\n"
ALL = "    loss = frames(x).square().mean()"


def causes(lines: str, folder: Path) -> list[tuple[str, int | None]]:
    script = HEAD + SETUP + lines + TRAIN
    here = [number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE")]
    found = {(each.cause, each.location.line) for each in alarms(script, folder) if each.location is not None}
    return [each for each in found if not here or each[1] == here[0]]


@pytest.mark.parametrize(
    ("cause", "lines"),
    [
        ("computed_and_not_read", "    dt = times[1] - times[0]  # HERE\n" + ALL),
        ("computed_and_not_read", "    dt = step_size(1)  # HERE\n" + ALL),
        ("computed_and_not_read", "    dt = step_sizes(3)  # HERE\n" + ALL),
        ("computed_and_not_read", "    attn_mask = (tokens != 0).unsqueeze(1)  # HERE\n" + ALL),
        ("computed_and_not_read", "    scale = x.std().item()  # HERE\n" + ALL),
        (
            "visible_positions_asked",
            MASK + "    scores = read(tokens.masked_fill(mask, 9))\n"
            "    loss = F.cross_entropy(scores[~mask], tokens[~mask])  # HERE",
        ),
        (
            "visible_positions_asked",
            MASK + "    given, asked = tokens.clone(), tokens.clone()\n    given[mask] = 9\n"
            "    asked[mask] = -100  # HERE\n    loss = F.cross_entropy(read(given).transpose(1, 2), asked)",
        ),
        (
            "visible_positions_asked",
            MASK + "    m = mask.float()\n    made = frames(layer(s * (1 - m)[..., None])[0])\n"
            "    loss = ((made - s).square().mean(-1) * (1 - m)).sum() / (1 - m).sum()  # HERE",
        ),
        (
            "visible_positions_asked",
            MASK + "    pad = tokens == 3\n    asked = tokens.masked_fill(mask | pad, -100)  # HERE\n"
            "    given = torch.where(mask & ~pad, 9, tokens)\n"
            "    loss = F.cross_entropy(read(given).transpose(1, 2), asked)",
        ),
        (
            "targets_are_inputs",
            "    noisy = x + 0.3 * torch.randn_like(x)\n    loss = F.mse_loss(frames(noisy), noisy)  # HERE",
        ),
        (
            "targets_are_inputs",
            "    corrupted = F.dropout(x, 0.3)\n    loss = F.l1_loss(frames(corrupted), corrupted)  # HERE",
        ),
        ("targets_are_inputs", "    loss = F.mse_loss(frames(layer(s[:, :-1])[0]), s[:, :-1])  # HERE"),
        (
            "targets_are_inputs",
            "    given = s.narrow(1, 0, 5)\n    loss = (frames(layer(given)[0]) - given).square().mean()  # HERE",
        ),
        ("argument_out_of_range", HOT + "    t = hot * 0.9 + 0.1  # HERE\n    loss = -(t * log_p).sum(1).mean()"),
        ("argument_out_of_range", HOT + "    t = torch.where(hot > 0, 0.9, 0.3)  # HERE\n"
         "    loss = torch.sum(-t * log_p, dim=1).mean()"),
        ("argument_out_of_range", "    t = torch.full((8, 10), 0.1).scatter_(1, labels[:, None], 0.9)  # HERE\n"
         "    loss = F.cross_entropy(model(x), t)"),
    ],
)  # fmt: skip
def test_what_should_be_something_else_is_told(cause: str, lines: str, tmp_path: Path) -> None:
    assert cause in {each for each, _ in causes(lines, tmp_path)}


@pytest.mark.parametrize(
    ("cause", "lines"),
    [
        ("computed_and_not_read", "    dt = times[1] - times[0]\n    loss = (dt * frames(x)).square().mean()"),
        ("computed_and_not_read", "    dt = step_sizes(3)\n    loss = (dt[0] * frames(x)).square().mean()"),
        ("computed_and_not_read", "    scale = x.std().item()\n    print(f'{scale:.2f}')\n" + ALL),
        ("computed_and_not_read", "    values, noise = x.max(1)\n    _mask = x > 0\n" + ALL),
        ("computed_and_not_read", "    spread = x.std()\n" + ALL),
        (
            "visible_positions_asked",
            MASK + "    scores = read(tokens.masked_fill(mask, 9))\n"
            "    loss = F.cross_entropy(scores[mask], tokens[mask])",
        ),
        (
            "visible_positions_asked",
            MASK + "    given, asked = tokens.clone(), tokens.clone()\n    given[mask] = 9\n"
            "    asked[~mask] = -100\n    loss = F.cross_entropy(read(given).transpose(1, 2), asked)",
        ),
        (
            "visible_positions_asked",
            MASK + "    pad = tokens == 3\n    asked = tokens.masked_fill(~mask | pad, -100)\n"
            "    given = torch.where(mask & ~pad, 9, tokens)\n"
            "    loss = F.cross_entropy(read(given).transpose(1, 2), asked)",
        ),
        (
            "visible_positions_asked",
            "    seen = torch.rand(8, 8) < 0.8\n    mask = seen & (torch.rand(8, 8) < 0.4)\n"
            "    made = frames(torch.where(seen & ~mask, x, stand_in))\n"
            "    loss = (made[mask] - x[mask]).square().mean()",
        ),
        (
            "visible_positions_asked",
            "    pad = torch.arange(6) >= torch.randint(2, 6, (8, 1))\n    kept = (~pad).float()[..., None]\n"
            "    loss = ((frames(layer(s * kept)[0]) - s).square() * kept).sum() / kept.sum()",
        ),
        (
            "visible_positions_asked",
            "    observed = (torch.rand(8, 6, 1) < 0.6).float()\n"
            "    loss = ((frames(layer(s * observed)[0]) - s).square() * observed).sum() / observed.sum()",
        ),
        ("targets_are_inputs", "    noisy = x + 0.3 * torch.randn_like(x)\n    loss = F.mse_loss(frames(noisy), x)"),
        ("targets_are_inputs", "    data = x + 0.3 * torch.randn_like(x)\n    loss = F.mse_loss(frames(data), data)"),
        ("targets_are_inputs", "    loss = F.mse_loss(frames(layer(s[:, :-1])[0]), s[:, 1:])"),
        ("targets_are_inputs", "    loss = F.mse_loss(frames(layer(s)[0]), s)"),
        (
            "targets_are_inputs",
            "    given = s[:, :-1]\n    loss = F.mse_loss(frames(layer(given)[0]), given)\n"
            "    loss = loss + (frames(x) - s[:, -1]).square().mean()",
        ),
        ("argument_out_of_range", HOT + "    t = hot * 0.9 + 0.01\n    loss = -(t * log_p).sum(1).mean()"),
        ("argument_out_of_range", HOT + "    t = (hot * 0.9 + 0.01) * (x[:, :1] + 9)\n"
         "    loss = -(t * log_p).sum(1).mean()"),
        ("argument_out_of_range", HOT + "    loss = -(3 * hot * log_p).sum(1).mean()"),
    ],
)  # fmt: skip
def test_healthy_look_alikes_are_left_alone(cause: str, lines: str, tmp_path: Path) -> None:
    assert cause not in {each for each, _ in causes(lines, tmp_path)}


HELD_OUT_OF_WHAT_WAS_MEASURED = """
cell, out = nn.GRUCell(6, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=0.01)
def hold_out(x):
    measured = ~torch.isnan(x)
    target = measured & (torch.rand_like(x) < 0.3)
    return torch.nan_to_num(x), measured & ~target, target
def predictions(x, visible):
    h, found = x.new_zeros(len(x), 16), []
    for t in range(x.shape[1]):
        found.append(out(h))
        filled = torch.where(visible[:, t], x[:, t], found[-1])
        h = cell(torch.cat([filled, visible[:, t].float()], 1), h)
    return torch.stack(found, 1)
def error(pred, x, mask):
    return (pred - x).abs()[mask].sum()
for step in range(5):
    batch = torch.randn(8, 6, 3).cumsum(1)
    batch[torch.rand(8, 6, 3) < 0.2] = float("nan")
    x, visible, target = hold_out(batch)
    loss = error(predictions(x, visible), x, target) / target.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_was_not_measured_at_all_may_be_in_both_masks(tmp_path: Path) -> None:
    """What is hidden is asked for: that neither mask has what is missing turns none of them around."""
    assert alarms(HEAD + HELD_OUT_OF_WHAT_WAS_MEASURED, tmp_path) == []
