"""Two critics, focal factors, and products of channels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CRITICS = (
    HEAD
    + """
def critic():
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
one, two = critic(), critic()
late_one, late_two = (copy.deepcopy(each).requires_grad_(False) for each in (one, two))
optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()])
for step in range(5):
    x, after, reward = torch.randn(16, 5), torch.randn(16, 5), torch.randn(16, 1)
    over = (torch.rand(16, 1) < 0.2).float()
"""
)
CRITICS_LOSS = (
    """
    loss = F.mse_loss(one(x), y) + F.mse_loss(two(x), y)
    with torch.no_grad():
        for each, late in ((one, late_one), (two, late_two)):
            for p, q in zip(each.parameters(), late.parameters()):
                q.lerp_(p, 0.01)
"""
    + TRAIN
)
LARGER = {
    "max": """
    with torch.no_grad():
        y = reward + 0.9 * (1 - over) * torch.max(late_one(after), late_two(after))  # HERE
""",
    "maximum, and an entropy": """
    a, b = late_one(after), late_two(after)
    best = torch.maximum(a, b) - 0.2 * torch.randn(16, 1)  # HERE
    y = (reward + 0.9 * (1 - over) * best).detach()
""",
}
SMALLER = {
    "min": """
    with torch.no_grad():
        y = reward + 0.9 * (1 - over) * torch.min(late_one(after), late_two(after))
""",
    "a mixture of both": """
    with torch.no_grad():
        a, b = late_one(after), late_two(after)
        y = reward + 0.9 * (1 - over) * (0.75 * torch.min(a, b) + 0.25 * torch.max(a, b))
""",
    "a floor": """
    with torch.no_grad():
        y = reward + 0.9 * (1 - over) * torch.max(late_one(after), torch.full((16, 1), -3.0))
""",
}


@pytest.mark.parametrize("name", LARGER)
def test_the_larger_of_two_estimates_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(CRITICS + LARGER[name] + CRITICS_LOSS, "larger_of_two_critics", tmp_path)


@pytest.mark.parametrize("name", SMALLER)
def test_other_choices_of_two_estimates_are_left_alone(name: str, tmp_path: Path) -> None:
    causes = [each.cause for each in alarms(CRITICS + SMALLER[name] + CRITICS_LOSS, tmp_path)]
    assert "larger_of_two_critics" not in causes


ONE_OF_EACH_ACTION = """
    a = torch.randint(0, 2, (16, 1))
    with torch.no_grad():
        y = reward + 0.9 * torch.max(one(after), two(after))
    loss = F.mse_loss(torch.where(a == 0, one(x), two(x)), y)
"""
COSTS = (
    LARGER["max"]
    + CRITICS_LOSS
    + """
    if step == 0:
        actor = nn.Linear(3, 2)
        slow = torch.optim.Adam(actor.parameters())
    state = torch.randn(16, 3)
    expected = one(torch.cat([state, actor(state)], 1)).mean()
    slow.zero_grad()
    expected.backward()
    slow.step()
"""
)


@pytest.mark.parametrize("body", [ONE_OF_EACH_ACTION + TRAIN, COSTS], ids=["a network of each action", "costs"])
def test_the_larger_value_is_meant_for_actions_and_for_costs(body: str, tmp_path: Path) -> None:
    assert "larger_of_two_critics" not in [each.cause for each in alarms(CRITICS + body, tmp_path)]


CLASSES = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    scores = model(x)
"""
)
HITS = {
    "a power of the probability": """
    ce = F.cross_entropy(scores, y, reduction="none")
    pt = torch.exp(-ce)
    loss = (pt ** 2.0 * ce).mean()  # HERE
""",
    "with a weight, of two classes": """
    target = (y > 0).float()
    bce = F.binary_cross_entropy_with_logits(scores[:, 0], target, reduction="none")
    pt = (-bce).exp()
    factor = pt.pow(2)  # HERE
    loss = (0.25 * factor * bce).mean()
""",
}
MISSES = {
    "what is missing to one": """
    ce = F.cross_entropy(scores, y, reduction="none")
    loss = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
""",
    "a weight by confidence, without a gradient": """
    ce = F.cross_entropy(scores, y, reduction="none")
    loss = (torch.exp(-ce).detach() ** 2 * ce).mean()
""",
}


@pytest.mark.parametrize("name", HITS)
def test_focal_factors_of_right_classes_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(CLASSES + HITS[name] + TRAIN, "focal_factor_of_hits", tmp_path)


@pytest.mark.parametrize("name", MISSES)
def test_other_weights_of_samples_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(CLASSES + MISSES[name] + TRAIN, tmp_path)


PICTURES = (
    HEAD
    + """
features = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU()).requires_grad_(False)
painter = nn.Conv2d(3, 3, 3, padding=1)
optimizer = torch.optim.Adam(painter.parameters())
def train(gram, count):
    style = gram(features(torch.rand(1, 3, 10, 10).expand(count, -1, -1, -1)))
    for step in range(4):
        loss = F.mse_loss(gram(features(painter(torch.rand(count, 3, 10, 10)))), style)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
ACROSS = {
    "a view": """
def gram(maps):
    n, c, h, w = maps.size()
    rows = maps.view(n * c, h * w)  # HERE
    return torch.mm(rows, rows.t()) / (n * c * h * w)
train(gram, 4)
""",
    "reshape": """
def gram(maps):
    n, c, h, w = maps.shape
    rows = maps.reshape(n * c, -1)  # HERE
    return rows @ rows.transpose(0, 1) / (c * h * w)
train(gram, 2)
""",
}
APART = {
    "kernels of a layer": """
def gram(maps):
    kernels = painter.weight.view(9, 9)
    return kernels @ kernels.t() + maps.mean()
train(gram, 4)
""",
    "one image": ACROSS["a view"].replace("train(gram, 4)", "train(gram, 1)"),
    "a matrix for each image": """
def gram(maps):
    n, c, h, w = maps.shape
    rows = maps.view(n, c, h * w)
    return rows @ rows.transpose(1, 2) / (c * h * w)
train(gram, 4)
""",
    "similarities of images": """
def gram(maps):
    rows = maps.flatten(1)
    return rows @ rows.t() / rows.shape[1]
train(gram, 4)
""",
}


@pytest.mark.parametrize("name", ACROSS)
def test_products_of_different_images_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PICTURES + ACROSS[name], "products_across_images", tmp_path)


@pytest.mark.parametrize("name", APART)
def test_products_of_one_image_are_left_alone(name: str, tmp_path: Path) -> None:
    assert "products_across_images" not in [each.cause for each in alarms(PICTURES + APART[name], tmp_path)]
