"""Terms of a loss that are 0 at every step: comparisons with what shares the memory, or with the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, findings


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


HELD = """
import copy

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{anchor}
for step in range(5):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(x), y)
    {near}
    optimizer.zero_grad()
    (loss + 0.1 * near).backward()
    optimizer.step()
"""
SQUARES = "near = sum((p - old).pow(2).sum() for p, old in zip(model.parameters(), anchor))"
NAMED = "near = sum((p - anchor[n]).norm() for n, p in model.named_parameters())"
SHARING = (
    ("anchor = [p.detach() for p in model.parameters()]  # HERE", SQUARES),
    ("anchor = [p.data.view(-1) for p in model.parameters()]  # HERE", SQUARES.replace("p - ", "p.view(-1) - ")),
    ("anchor = {n: p.data for n, p in model.named_parameters()}  # HERE", NAMED),
    ("anchor = model.state_dict()  # HERE", NAMED),
)
COPIED = (
    ("anchor = [p.detach().clone() for p in model.parameters()]", SQUARES),
    ("anchor = copy.deepcopy(model.state_dict())", NAMED),
    ("anchor = {n: p.data.clone() for n, p in model.named_parameters()}", NAMED),
)


@pytest.mark.parametrize(("anchor", "near"), SHARING)
def test_old_values_that_share_the_memory_of_the_parameters_hold_nothing(
    anchor: str, near: str, tmp_path: Path
) -> None:
    assert_first_alarm(HEAD + HELD.format(anchor=anchor, near=near), "compared_with_itself", tmp_path)


@pytest.mark.parametrize(("anchor", "near"), COPIED)
def test_copies_of_old_values_hold_the_parameters(anchor: str, near: str, tmp_path: Path) -> None:
    assert not causes(HEAD + HELD.format(anchor=anchor, near=near), tmp_path)


TWO_SIDES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.second = nn.Linear(8, 16), nn.Dropout({rate}), nn.Linear(16, 3)

    def forward(self, x):
        hidden = self.first(x)
        kept = hidden
        return self.second(self.drop(F.relu(hidden))), hidden, kept

def divergence(p, q):
    return F.kl_div(p.log_softmax(1), q.softmax(1), reduction="batchmean")  # KL

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    out, hidden, kept = net(x)
    loss = F.cross_entropy(out, y)
    loss = loss + {term}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SAME = (
    ("F.mse_loss(hidden, kept.detach())  # HERE", "compared_with_itself"),
    ("(hidden - kept).square().mean()  # HERE", "compared_with_itself"),
    ("(out[:, 1:] - out[:, 1:]).abs().mean()  # HERE", "term_always_zero"),
    ("F.smooth_l1_loss(net(x)[0].softmax(1), out.softmax(1))  # HERE", "term_always_zero"),
    ("0.5 * (divergence(net(x)[0], out) + divergence(out, net(x)[0]))", "term_always_zero"),
)
DIFFERENT = (
    "(out[:, 1:] - out[:, :-1]).abs().mean()",
    "F.mse_loss(hidden, 0.5 * kept.detach())",
    "(torch.exp(out - out.detach()) * torch.randn(32, 3)).mean()",
    "1e-4 * F.mse_loss(1e-3 * hidden, torch.zeros_like(hidden))",
)


@pytest.mark.parametrize(("term", "cause"), SAME)
def test_terms_that_compare_the_same_are_told(term: str, cause: str, tmp_path: Path) -> None:
    script = TWO_SIDES.format(term=term, rate=0.0)
    assert_first_alarm(HEAD + (script if "HERE" in script else script.replace("# KL", "# HERE")), cause, tmp_path)


@pytest.mark.parametrize("term", DIFFERENT)
def test_terms_that_compare_others_are_right(term: str, tmp_path: Path) -> None:
    assert not causes(HEAD + TWO_SIDES.format(term=term, rate=0.0), tmp_path)


def test_two_forwards_with_dropout_differ(tmp_path: Path) -> None:
    assert not causes(HEAD + TWO_SIDES.format(term="divergence(net(x)[0], out)", rate=0.3), tmp_path)


TEACHER = """
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
teacher = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    {renewal}
    with torch.no_grad():
        wanted = teacher(x).softmax(1)
    loss = F.cross_entropy(model(x), y) + F.kl_div(model(x).log_softmax(1), wanted, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_copy_that_is_renewed_before_each_use_is_told_where_it_is_renewed(tmp_path: Path) -> None:
    renewal = "teacher.load_state_dict(model.state_dict())  # HERE"
    assert_first_alarm(HEAD + TEACHER.format(renewal=renewal), "term_always_zero", tmp_path)


def test_a_copy_that_is_renewed_at_some_steps_is_right(tmp_path: Path) -> None:
    renewal = "if step % 3 == 0: teacher.load_state_dict(model.state_dict())"
    assert "term_always_zero" not in causes(HEAD + TEACHER.format(renewal=renewal), tmp_path)


def test_a_hinge_that_is_satisfied_is_a_note(tmp_path: Path) -> None:
    script = HEAD + TWO_SIDES.format(term="F.relu(hidden.abs() - 100).mean()  # HERE", rate=0.0)
    found = findings(script, tmp_path)
    assert not [finding.cause for finding in found if finding.is_alarm]
    assert "term_always_zero" in {finding.cause for finding in found}


def test_a_difference_that_is_only_shown_is_right(tmp_path: Path) -> None:
    script = TWO_SIDES.format(
        term="0.1 * hidden.square().mean()\n    shown = (hidden - kept).square().mean()", rate=0.0
    )
    assert not causes(HEAD + script, tmp_path)


TRIPLETS = """
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    x, other = torch.randn(16, 10), torch.randn(16, 10)
    a, p, n = net(x), net(x{noise}), net(other)
    loss = {loss}  # HERE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MARGINS = (
    "nn.TripletMarginLoss()(a, p, n)",
    "F.relu((a - p).pow(2).sum(1) - (a - n).pow(2).sum(1) + 1).mean()",
    "(F.pairwise_distance(a, p) - F.pairwise_distance(a, n) + 1).clamp(min=0).mean()",
    "F.softplus((a - p).norm(dim=1) - (a - n).norm(dim=1)).mean()",
    "F.relu(F.cosine_similarity(a, n) - F.cosine_similarity(a, p) + 0.2).mean()",
)


@pytest.mark.parametrize("loss", MARGINS)
def test_a_positive_that_is_the_anchor_itself_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + TRIPLETS.format(loss=loss, noise=""), "term_always_zero", tmp_path)


@pytest.mark.parametrize("loss", MARGINS[:3])
def test_another_view_of_the_anchor_is_a_positive(loss: str, tmp_path: Path) -> None:
    assert not causes(HEAD + TRIPLETS.format(loss=loss, noise=" + 0.1 * torch.randn(16, 10)"), tmp_path)


@pytest.mark.parametrize("function", ["F.cosine_similarity(a, {})", "-F.pairwise_distance(a, {})"])
def test_other_samples_of_the_same_batch_are_negatives(function: str, tmp_path: Path) -> None:
    loss = f"F.relu({function.format('a.roll(1, 0)')} - {function.format('p')} + 0.2).mean()"
    script = TRIPLETS.format(loss=loss, noise=" + 0.1 * torch.randn(16, 10)")
    assert "term_always_zero" not in causes(HEAD + script, tmp_path)
