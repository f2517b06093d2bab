"""Numbers that layers, losses and optimizers are set to, where they mean the opposite of what their author thinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 3, bias=False)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8, 4)
    def forward(self, x):
        h = self.norm(self.conv(x)).relu().mean(-1)
        return self.head(self.drop(h))
criterion = nn.CrossEntropyLoss()
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(12):
    net.train()
    loss = criterion(net(torch.randn(16, 3, 10)), torch.randint(0, 4, (16,)))
"""
TRAINED = HEAD + NET + TRAIN
EVALUATION = """
    net.eval()
    with torch.no_grad():
        print(net(torch.randn(4, 3, 10)).mean())
"""
SCRIPT = TRAINED + EVALUATION

FAULTY = {
    "adam": ("betas_swapped", "lr=1e-3)", "lr=1e-3, betas=(0.999, 0.9))  # HERE"),
    "adamw, in a group": (
        "betas_swapped",
        "Adam(net.parameters(), lr=1e-3)",
        "AdamW([{'params': net.parameters(), 'betas': (0.99, 0.9)}])  # HERE",
    ),
    "momentum of another library": (
        "statistics_of_last_batch",
        "self.norm = nn.BatchNorm1d(8)",
        "self.norm = nn.BatchNorm1d(8, momentum=0.9)  # HERE",
    ),
    "a probability to keep": ("share_kept_dropped", "nn.Dropout(0.1)", "nn.Dropout(p=0.95)  # HERE"),
    "a probability to keep, of channels": (
        "share_kept_dropped",
        "h = self.norm(self.conv(x))",
        "h = F.dropout1d(self.norm(self.conv(x)), 0.9, self.training)  # HERE\n        h = h",
    ),
    "up the gradient": (
        "steps_up_gradient",
        "Adam(net.parameters(), lr=1e-3)",
        "SGD(net.parameters(), maximize=True, lr=0.1)  # HERE",
    ),
    "smoothing": ("mostly_smoothed", "CrossEntropyLoss()", "CrossEntropyLoss(label_smoothing=0.9)  # HERE"),
}
HEALTHY = {
    "betas of adversarial networks": SCRIPT.replace("lr=1e-3)", "lr=1e-3, betas=(0.0, 0.9))"),
    "two alike": SCRIPT.replace("lr=1e-3)", "lr=1e-3, betas=(0.95, 0.95))"),
    "betas that are a little apart": SCRIPT.replace("lr=1e-3)", "lr=1e-3, betas=(0.95, 0.9))"),
    "statistics of one batch, as it is written": SCRIPT.replace("BatchNorm1d(8)", "BatchNorm1d(8, momentum=1.0)"),
    "statistics that nothing uses": TRAINED.replace("BatchNorm1d(8)", "BatchNorm1d(8, momentum=0.9)"),
    "up a gradient that is turned before": SCRIPT.replace(
        "Adam(net.parameters(), lr=1e-3)", "SGD(net.parameters(), maximize=True, lr=0.1)"
    ).replace("loss = criterion(", "loss = -criterion("),
    "what is added to data": TRAINED.replace("Adam(net.parameters(), lr=1e-3)", "SGD([shift], maximize=True, lr=0.1)")
    .replace("net = Net()", "net, shift = Net().requires_grad_(False), torch.zeros(3, 10, requires_grad=True)")
    .replace("net(torch.randn(16, 3, 10))", "net(torch.randn(16, 3, 10) + shift)"),
    "half of the values": SCRIPT.replace("nn.Dropout(0.1)", "nn.Dropout(0.5)"),
    "data that are hidden": SCRIPT.replace("self.conv(x)", "self.conv(F.dropout(x, 0.9, self.training))"),
    "a little smoothing": SCRIPT.replace("CrossEntropyLoss()", "CrossEntropyLoss(label_smoothing=0.2)"),
}

STEPPED = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.{}
for epoch in range(6):
    loss = F.mse_loss(model(torch.ones(8, 4)), torch.ones(8, 2))
"""
EPOCHS = "CosineAnnealingLR(optimizer, 6)"
WAITS = "ReduceLROnPlateau(optimizer)"


@pytest.mark.parametrize("told", ["loss.item()", "loss.detach()"])
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_a_schedule_that_counts_epochs_and_is_told_a_loss_is_told(told: str, tmp_path: Path) -> None:
    script = HEAD + STEPPED.format(EPOCHS) + TRAIN + f"    schedule.step({told})  # HERE\n"
    assert_first_alarm(script, "schedule_told_a_loss", tmp_path)


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (EPOCHS, ""),
        (EPOCHS, "epoch + 1"),
        (EPOCHS, "epoch + 0.5"),
        ("CosineAnnealingWarmRestarts(optimizer, 3)", "epoch + 0.3"),
        (WAITS, "loss.item()"),
    ],
)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_a_schedule_may_be_told_the_epoch_or_wait_for_a_loss(schedule: str, told: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + STEPPED.format(schedule) + TRAIN + f"    schedule.step({told})\n", tmp_path)


@pytest.mark.parametrize("name", FAULTY)
def test_a_number_that_means_the_opposite_is_told_where_it_is_set(name: str, tmp_path: Path) -> None:
    cause, old, new = FAULTY[name]
    assert_first_alarm(SCRIPT.replace(old, new), cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_numbers_that_people_choose_are_right(name: str, tmp_path: Path) -> None:
    assert findings(HEALTHY[name], tmp_path) == ()


TWO_SPEEDS = """
class TwoSpeeds(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, betas=(0.99, 0.9)):
        super().__init__(params, {"lr": lr, "betas": betas})  # HERE
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                for name, beta in zip(("slow", "fast"), group["betas"]):
                    state[name] = state.get(name, torch.zeros_like(p)).lerp(p.grad%s, 1 - beta)
                p.sub_(state["slow"]%s, alpha=group["lr"])
"""


def test_two_averages_of_gradients_may_have_any_betas(tmp_path: Path) -> None:
    used = SCRIPT.replace("torch.optim.Adam(net.parameters(), lr=1e-3)", "TwoSpeeds(net.parameters())")
    plain = used.replace(NET.lstrip()[:10], TWO_SPEEDS % ("", " + state['fast']") + NET.lstrip()[:10])
    assert findings(plain, tmp_path) == ()
    scaled = (
        TWO_SPEEDS.replace("p.grad%s", "(p.grad if name == 'slow' else p.grad.square())") % " / state['fast'].sqrt()"
    )
    assert_first_alarm(used.replace(NET.lstrip()[:10], scaled + NET.lstrip()[:10]), "betas_swapped", tmp_path)


@pytest.mark.parametrize(
    ("cause", "old", "new"),
    [
        ("mostly_smoothed", "CrossEntropyLoss()", "CrossEntropyLoss(label_smoothing={})"),
        ("share_kept_dropped", "nn.Dropout(0.1)", "nn.Dropout({})"),
    ],
)
def test_a_comparison_of_shares_is_only_noted(cause: str, old: str, new: str, tmp_path: Path) -> None:
    runs = NET.replace(old, new.format("share")) + TRAIN
    begin = runs.index("criterion = ") if cause == "mostly_smoothed" else 0
    body = runs[begin:].strip("\n").replace("\n", "\n    ")
    script = HEAD + runs[:begin] + f"for share in (0.1, 0.5, 0.9):\n    {body}\n"
    assert [(each.cause, each.severity) for each in findings(script, tmp_path)] == [(cause, "note")]


def test_half_of_the_labels_may_be_smoothed(tmp_path: Path) -> None:
    script = SCRIPT.replace("CrossEntropyLoss()", "CrossEntropyLoss(label_smoothing=0.5)")
    assert [(each.cause, each.severity) for each in findings(script, tmp_path)] == [("mostly_smoothed", "note")]


def test_much_dropout_may_be_meant(tmp_path: Path) -> None:
    (found,) = findings(SCRIPT.replace("nn.Dropout(0.1)", "nn.Dropout(0.8)"), tmp_path)
    assert (found.cause, found.severity) == ("share_kept_dropped", "note")
