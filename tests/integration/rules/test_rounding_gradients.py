"""Parameters whose gradient is only rounding error, because what comes back to them cancels out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = """
{made}
optimizer = torch.optim.SGD([each for net in nets for each in net.parameters()], lr=0.05)
for _ in range(4):
    x, y = torch.randn(12, 5, 4), torch.randn(12, 4)
    {loss}
"""
ATTENTION = "nets = key, query = nn.Linear(4, 1, bias=False), nn.Linear(4, 1)"
GRAPH = """nets = source, target = nn.Linear(4, 1), nn.Linear(4, 1)
ends = torch.arange(12).repeat_interleave(5)"""
CANCELLING = (
    (
        ATTENTION,
        "a = torch.softmax(key(x) + query(x[:, :1]), 1)  # HERE\n    loss = ((a * x).sum(1) - y).square().mean()",
    ),
    (
        ATTENTION,
        "s = F.leaky_relu(key(x)) + F.leaky_relu(query(y))[:, None]  # HERE\n"
        "    loss = (torch.einsum('bn,bnd->bd', F.softmax(s[..., 0], -1), x) - y).square().mean()",
    ),
    (
        GRAPH,
        "scores = (source(x).flatten() + torch.tanh(target(y)).flatten()[ends]).exp()  # HERE\n"
        "    shares = scores / torch.zeros(12).index_add(0, ends, scores)[ends]\n"
        "    loss = (torch.zeros(12, 4).index_add(0, ends, shares[:, None] * x.flatten(0, 1)) - y).square().mean()",
    ),
    (
        "nets = (net,) = (nn.Linear(4, 1),)",
        "scores = net(y)[torch.randperm(12)]\n"
        "    below = torch.logcumsumexp(scores, dim=-1)  # HERE\n    loss = (below - scores).mean()",
    ),
)
HARMLESS = (
    # The bias of the keys moves all scores of a softmax alike.
    (
        "nets = key, query = nn.Linear(4, 4), nn.Linear(4, 4)",
        "a = torch.softmax(query(y)[:, None] @ key(x).mT, -1)\n    loss = ((a @ x)[:, 0] - y).square().mean()",
    ),
    # A bias before a normalization.
    (
        "nets = (net,) = (nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)),)",
        "loss = (net(y) - y.flip(1)).square().mean()",
    ),
    # The bias of a user is in both scores of a pair.
    (
        "nets = users, bias, items = nn.Embedding(6, 4), nn.Embedding(6, 1), nn.Embedding(9, 4)",
        "u, i, j = torch.randint(6, (12,)), torch.randint(9, (12,)), torch.randint(9, (12,))\n"
        "    score = lambda item: (users(u) * items(item)).sum(1) + bias(u)[:, 0]\n"
        "    loss = -F.logsigmoid(score(i) - score(j)).mean()",
    ),
    # The largest score is subtracted for stability, with its gradient.
    (
        "nets = (net,) = (nn.Linear(4, 3),)",
        "s = net(y)\n    top = s.max(1, keepdim=True).values\n"
        "    total = top + (s - top).exp().sum(1, keepdim=True).log()\n    loss = (total[:, 0] - s[:, 0]).mean()",
    ),
    # An activation after the sum.
    (
        ATTENTION,
        "a = torch.softmax(torch.tanh(key(x) + query(x[:, :1])), 1)\n    loss = ((a * x).sum(1) - y).square().mean()",
    ),
)


@pytest.mark.parametrize(("made", "loss"), CANCELLING)
def test_a_parameter_whose_gradients_cancel_out_is_told_where_they_do(made: str, loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SCRIPT.format(made=made, loss=loss) + TRAIN, "only_rounding", tmp_path)


@pytest.mark.parametrize(("made", "loss"), HARMLESS)
def test_biases_that_cancel_and_sums_that_do_not_are_left_alone(made: str, loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + SCRIPT.format(made=made, loss=loss) + TRAIN, tmp_path)


def test_a_regression_that_has_found_its_best_weights_is_left_alone(tmp_path: Path) -> None:
    script = """
net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)).double()
optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
x = torch.randn(8, 2).double()
y = x @ torch.tensor([[1.0], [-1.0]]).double()
for _ in range(60):
    h = net(x)
    loss = (h - y).square().mean() + (h[:4] - y[:4]).abs().square().mean()
"""
    assert not alarms(HEAD + script + TRAIN, tmp_path)


SCALED = """
net, proto = nn.Linear(4, 8), nn.Parameter(torch.randn(3, 8))
scale, each = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.ones(2, 1, 1))
optimizer = torch.optim.Adam([*net.parameters(), proto, scale, each], lr=0.01)
for _ in range(4):
    h = net(torch.randn(12, 4))
    {scores}
    loss = F.cross_entropy(s, torch.randint(0, 3, (12,))) + 0.1 * ({other} - 2).square().sum()
"""
DIVIDED_OUT = (
    ("s = F.linear(F.normalize(h * scale.exp(), dim=-1), F.normalize(proto, dim=-1))  # HERE", "each"),
    ("z = scale * h  # HERE\n    s = z / z.norm(dim=-1, keepdim=True) @ proto.T", "each"),
    (
        "z = torch.einsum('bd,->bd', h, scale)  # HERE\n    s = z / z.square().sum(-1, keepdim=True).sqrt() @ proto.T",
        "each",
    ),
    ("z = scale * h  # HERE\n    s = z * (z.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() @ proto.T", "each"),
    ("s = F.cosine_similarity((h / F.softplus(scale))[:, None], proto[None], dim=-1)  # HERE", "each"),
    ("s = F.layer_norm(torch.mul(F.relu(h), scale), (8,)) @ proto.T  # HERE", "each"),
    ("s = F.batch_norm(h * scale, None, None, training=True) @ proto.T  # HERE", "each"),
    (
        "z = h.view(12, 2, 4).transpose(0, 1) * each  # HERE\n"
        "    s = (F.normalize(z, dim=-1) * scale).transpose(0, 1).reshape(12, 8) @ proto.T",
        "scale",
    ),
)
OF_INFLUENCE = (
    ("s = scale.exp() * F.linear(F.normalize(h, dim=-1), F.normalize(proto, dim=-1))", "each"),
    ("s = F.normalize(h + F.relu(h) * scale, dim=-1) @ proto.T", "each"),
    ("s = F.batch_norm(h * scale, torch.zeros(8), torch.ones(8)) @ proto.T", "each"),
    ("s = F.normalize(scale * h, dim=-1) @ proto.T + scale", "each"),
    ("s = F.layer_norm(torch.tanh(h * scale), (8,)) @ proto.T", "each"),
    ("z = scale * h\n    s = z / z.norm(dim=-1, keepdim=True) @ proto.T + z.norm(dim=-1, keepdim=True)", "each"),
    ("z = scale * h\n    s = z / z.square().sum(-1, keepdim=True).sqrt() @ proto.T + z.square().sum()", "each"),
    (
        "z = h.view(12, 2, 4) * each.view(2, 1)\n    s = F.layer_norm(z.reshape(12, 8), (8,)) @ proto.T * scale",
        "scale",
    ),
)


@pytest.mark.parametrize(("scores", "other"), DIVIDED_OUT)
def test_a_scale_that_is_divided_out_again_is_told(scores: str, other: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SCALED.format(scores=scores, other=other) + TRAIN, "only_rounding", tmp_path)


@pytest.mark.parametrize(("scores", "other"), OF_INFLUENCE)
def test_a_scale_of_influence_raises_no_alarm(scores: str, other: str, tmp_path: Path) -> None:
    found = alarms(HEAD + SCALED.format(scores=scores, other=other) + TRAIN, tmp_path)
    assert "only_rounding" not in [each.cause for each in found]


ACTOR_AND_CRITIC = """
actor, critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), nn.Linear(6, 1)
to_act, to_judge = (torch.optim.Adam(net.parameters(), lr=0.01) for net in (actor, critic))
nn.init.constant_(critic.bias, 9.0)
def scale_of(values):
    return 2.5 / {size}
for step in range(8):
    state, action = torch.randn(16, 4), torch.randn(16, 2)
    error = F.mse_loss(critic(torch.cat([state, action], 1)), 9 + action.sum(1, keepdim=True))
    to_judge.zero_grad()
    error.backward()
    to_judge.step()
    chosen = actor(state)
    values = critic(torch.cat([state, chosen], 1))
    {loss}
    to_act.zero_grad()
    loss.backward()
    to_act.step()
"""


def test_a_network_is_told_that_one_of_two_losses_does_not_depend_on(tmp_path: Path) -> None:
    loss = "loss = F.mse_loss(chosen, action) - scale_of(values) * values.mean()  # HERE"
    script = HEAD + ACTOR_AND_CRITIC.format(size="values.abs().mean()", loss=loss)
    assert_first_alarm(script, "only_rounding", tmp_path)


@pytest.mark.parametrize(
    ("size", "loss"),
    [
        ("values.abs().mean().detach()", "loss = F.mse_loss(chosen, action) - scale_of(values) * values.mean()"),
        ("values.abs().mean()", "loss = F.mse_loss(chosen, action) - scale_of(values.detach()) * values.mean()"),
    ],
)
def test_a_factor_without_a_gradient_is_left_alone(size: str, loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + ACTOR_AND_CRITIC.format(size=size, loss=loss), tmp_path)
