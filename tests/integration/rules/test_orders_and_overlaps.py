"""Samples in two orders, straight-throughs that are turned round, overlaps of boxes, single values that are divided by
their sum, and gradients that are clipped before a scale written by hand is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


POLICY = """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
states, advantages = torch.randn(48, 4), torch.randn(48)
actions = torch.randint(0, 3, (48, 1))
{noise}
order = torch.randperm(48)
for step in range(3):
    part = order[step * 16 : step * 16 + 16]
    chosen = policy(states[part]).log_softmax(1).gather(1, actions[part]).squeeze(1)
    {weights}
    loss = -(chosen * a).mean()
"""
IN_ORDER = (
    "a = advantages[step * 16 : step * 16 + 16]  # HERE",
    "taken = advantages.unsqueeze(1)[step * 16 : step * 16 + 16]  # HERE\n    a = taken.squeeze(1)",
)
AS_MEANT = (
    "a = advantages[part]",
    "a = (advantages[order])[step * 16 : step * 16 + 16]",
    "a = noise[step * 16 : step * 16 + 16]",
    "a = torch.ones(48)[step * 16 : step * 16 + 16]",
    "a = torch.linspace(0, 1, 16)",
)


@pytest.mark.parametrize("weights", IN_ORDER)
def test_a_slice_beside_a_part_of_a_permutation_belongs_to_other_samples(weights: str, tmp_path: Path) -> None:
    script = POLICY.replace("torch.randn(48)\n", "torch.randn(48).cumsum(0)\n").format(weights=weights, noise="")
    assert_first_alarm(HEAD + script + TRAIN, "shuffled_apart", tmp_path)


@pytest.mark.parametrize("weights", AS_MEANT)
def test_values_in_the_same_order_or_of_no_sample_are_right(weights: str, tmp_path: Path) -> None:
    script = POLICY.format(weights=weights, noise="noise = torch.randn(48)")
    assert "shuffled_apart" not in causes(HEAD + script + TRAIN, tmp_path)


REGRESSION = """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(48, 4)
codes, y = torch.randn(48, 4), x.sum(1, keepdim=True)
order = torch.randperm({held_in})
for step in range(2):
    part = order[step * 16 : step * 16 + 16]
    {}
    loss = F.mse_loss(net(inputs), targets)
"""


@pytest.mark.parametrize("lines", [
    "inputs, targets = x[step * 16 : step * 16 + 16], y[part]  # HERE",
    "inputs, targets = x[part], y[step * 16 : step * 16 + 16]  # HERE",
    "targets = y[part]\n    inputs = x.flip(1)[step * 16 : step * 16 + 16]  # HERE",
])  # fmt: skip
@pytest.mark.parametrize("held_in", [48, 32])
def test_samples_as_they_are_stored_beside_others_in_another_order_are_told(
    held_in: int, lines: str, tmp_path: Path
) -> None:
    script = REGRESSION.format(lines, held_in=held_in).replace("x.flip(1)", "x.sort(1).values")
    assert_first_alarm(HEAD + script + TRAIN, "shuffled_apart", tmp_path)


@pytest.mark.parametrize("lines", [
    "inputs, targets = x[part], y[part]",
    "inputs, targets = x, None\n    loss = F.mse_loss(net(x)[order[:16]], y[order[:16]])\n    inputs, targets = x, y",
    "inputs, targets = codes[step * 16 : step * 16 + 16], y[part]",
    "inputs, targets = x[part] + codes[step * 16 : step * 16 + 16], y[part]",
    "inputs, targets = x[step * 16 : step * 16 + 16], y[step * 16 : step * 16 + 16]",
])  # fmt: skip
def test_inputs_in_the_order_of_their_targets_or_of_no_sample_are_right(lines: str, tmp_path: Path) -> None:
    assert "shuffled_apart" not in causes(HEAD + REGRESSION.format(lines, held_in=48) + TRAIN, tmp_path)


AUTOENCODER = """
encoder, decoder, codes = nn.Linear(4, 2), nn.Linear(2, 4), nn.Embedding(8, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), *codes.parameters()], lr=0.1)
def quantize(z):
    q = codes(torch.cdist(z, codes.weight).argmin(1))
    passed = {passed}{mark}
    return passed, (z - q.detach()).square().mean() + (q - z.detach()).square().mean()
for step in range(3):
    x = torch.randn(16, 4)
    h, near = quantize(encoder(x))
    loss = F.mse_loss(decoder(h), x) + near
"""


@pytest.mark.parametrize(
    "passed",
    [
        "q + (z - q).detach()", "q - (q - z).detach()", "(z - q).data + q", "z + q - z", "z + (q - z)",
        "torch.no_grad()(lambda: z - q)() + q", "q.sub(q.detach().sub(z.detach()))", "q + (z.data - q.data)",
    ],
)  # fmt: skip
def test_a_straight_through_that_is_turned_round_or_lacks_its_detach_is_told(passed: str, tmp_path: Path) -> None:
    script = AUTOENCODER.format(passed=passed, mark="  # HERE")
    assert_first_alarm(HEAD + script + TRAIN, "straight_through_reversed", tmp_path)


@pytest.mark.parametrize("passed", [
    "z + (q - z).detach()", "z - (z - q).detach()", "(q - z).detach() + z", "q", "torch.no_grad()(lambda: q - z)() + z",
    "z + (q.data - z.data)", "q + (z - q).detach() * 0.5",
])  # fmt: skip
def test_a_straight_through_with_the_chosen_value_is_right(passed: str, tmp_path: Path) -> None:
    script = AUTOENCODER.format(passed=passed, mark="")
    assert "straight_through_reversed" not in causes(HEAD + script + TRAIN, tmp_path)


BOXES = """
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
corner, size = torch.rand(16, 2) * 4, torch.rand(16, 2)
for step in range(3):
    first, sizes = model(torch.randn(16, 8)).chunk(2, 1)
    last = first + sizes.exp()
    {overlap}
    union = sizes.exp().prod(1) + size.prod(1) - overlap
    loss = first.square().mean() - (overlap / union).mean()
"""
CENTRES = "(first + last) / 2, corner + size / 2"
REACH = f"p, q = {CENTRES}\n    sides = (sizes.exp() + size) / 2 - (p - q).abs()"
SIDES = "torch.minimum(last, corner + size) - torch.maximum(first, corner)"


@pytest.mark.parametrize(
    "overlap",
    [
        f"sides = {SIDES}  # HERE\n    overlap = sides.prod(1)",
        f"sides = {SIDES}  # HERE\n    overlap = sides[:, 0] * sides[:, 1]",
        "w = torch.min(last[:, 0], (corner + size)[:, 0]) - torch.max(first[:, 0], corner[:, 0])\n"
        "    h = torch.min(last[:, 1], (corner + size)[:, 1]) - torch.max(first[:, 1], corner[:, 1])  # HERE\n"
        "    overlap = w * h",
        "sides = torch.add(last.clamp(max=corner + size), first.clamp_min(corner), alpha=-1)  # HERE\n"
        "    overlap = sides.prod(1)",
        "sides = torch.stack([last, corner + size]).amin(0) - torch.stack([first, corner]).amax(0)  # HERE\n"
        "    overlap = torch.mul(*sides.unbind(1))",
        f"{REACH}  # HERE\n    overlap = sides.prod(1)",
        f"{REACH}  # HERE\n    overlap = torch.minimum(sides, torch.minimum(sizes.exp(), size)).prod(1)",
        f"p, q = {CENTRES}\n    sides = sizes.exp() * 0.5 + size * 0.5\n"
        "    sides = torch.add(sides, torch.abs(q - p), alpha=-1)  # HERE\n    overlap = sides[:, 0] * sides[:, 1]",
        f"w, h = ({SIDES}).unbind(1)  # HERE\n    overlap = torch.stack([w, h], -1).prod(-1)",
    ],
)
def test_sides_of_an_overlap_are_clamped_before_they_are_multiplied(overlap: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + BOXES.format(overlap=overlap) + TRAIN, "overlap_not_clamped", tmp_path)


@pytest.mark.parametrize(
    "overlap",
    [
        f"overlap = ({SIDES}).clamp(min=0).prod(1)",
        f"sides = F.relu({SIDES})\n    overlap = sides[:, 0] * sides[:, 1]",
        "hull = torch.maximum(last, corner + size) - torch.minimum(first, corner)\n    overlap = hull.prod(1)",
        f"overlap = ({SIDES})[:, 0]",
        f"{REACH}\n    overlap = sides.clamp(min=0).prod(1)",
        f"{REACH}\n    overlap = torch.minimum(sides, torch.minimum(sizes.exp(), size)).relu().prod(1)",
        f"{REACH}\n    overlap = torch.where((sides > 0).all(1), sides.prod(1), 0.0)",
        f"p, q = {CENTRES}\n    overlap = (1 - (p - q).abs()).prod(1)",
        f"sides = {SIDES}\n    overlap = torch.where((sides > 0).all(1), sides.prod(1), 0.0)",
    ],
)
def test_clamped_sides_hulls_and_single_sides_are_right(overlap: str, tmp_path: Path) -> None:
    assert "overlap_not_clamped" not in causes(HEAD + BOXES.format(overlap=overlap) + TRAIN, tmp_path)


LABELLED = """
grid = torch.rand(12, 2) * 4
model = nn.Linear(12, 12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    corner = torch.rand(8, 2) * 4
    sides = torch.minimum(grid + 1, corner[:, None] + 1) - torch.maximum(grid, corner[:, None]){clamp}
    target = (sides.prod(-1) > 0.4).float()
    loss = F.binary_cross_entropy_with_logits(model(target + torch.randn(8, 12)), target)
"""


def test_targets_of_overlaps_that_are_not_clamped_are_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LABELLED.format(clamp="  # HERE") + TRAIN, "overlap_not_clamped", tmp_path)
    script = HEAD + LABELLED.format(clamp="\n    sides = sides.clamp(min=0)") + TRAIN
    assert "overlap_not_clamped" not in causes(script, tmp_path)


ROUTED = """
router, experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 1) for _ in range(3))
optimizer = torch.optim.SGD([*router.parameters(), *experts.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(16, 4)
    probabilities = router(x).softmax(1)
    gate, index = probabilities.topk({k}, 1)
    gate = gate / gate.sum(1, keepdim=True)  # HERE
    results = torch.stack([expert(x) for expert in experts], 1).squeeze(2).gather(1, index)
    loss = F.mse_loss((gate * results).sum(1), x.sum(1)) + 0.01 * probabilities.mean(0).square().sum()
"""


def test_a_single_gate_that_is_divided_by_its_sum_teaches_the_router_nothing(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ROUTED.format(k=1) + TRAIN, "zero_gradient_op", tmp_path)


def test_two_gates_that_are_divided_by_their_sum_are_right(tmp_path: Path) -> None:
    assert not alarms(HEAD + ROUTED.format(k=2) + TRAIN, tmp_path)


SCALED = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    (model(torch.randn(8, 4)).square().mean() * 1024.0).backward()
    {changes}
    optimizer.step()
"""
CLIP, UNSCALE = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "[p.grad.{}(1024.0) for p in model.parameters()]"


@pytest.mark.parametrize("unscale", [UNSCALE.format("div_"), UNSCALE.format("mul_").replace("(1024", "(1 / 1024")])
def test_gradients_are_clipped_after_their_scale_is_taken_away(unscale: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SCALED.format(changes=f"{CLIP}  # HERE\n    {unscale}"), "clip_misplaced", tmp_path)
    assert not alarms(HEAD + SCALED.format(changes=f"{unscale}\n    {CLIP}"), tmp_path)
