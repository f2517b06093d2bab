"""Padding that a loss, a mean or the last state of a recurrent layer counts; the first time step alone; derivatives by
another input than their name says; and returns that sum up the rewards before an action."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


BATCH = """
def batch(filling=0):
    real = torch.arange(10) < torch.randint(2, 10, (16, 1))
    return torch.where(real, torch.randint(1, 20, (16, 10)), filling), real
"""
LANGUAGE = (
    BATCH
    + """
embed, layer, head = nn.Embedding(21, 8), nn.GRU(8, 12, batch_first=True), nn.Linear(12, 21)
optimizer = torch.optim.SGD([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.1)
{before}
for step in range(3):
    tokens, real = batch({pad})
    out, _ = layer(embed(tokens[:, :-1]))
    scores, following = head(out), tokens[:, 1:]
    {loss}
"""
)
COUNTS = (
    ("", "0", "loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())  # HERE"),
    ("", "0", "loss = F.cross_entropy(scores.transpose(1, 2), following, ignore_index=-1)  # HERE"),
    (
        "criterion = nn.CrossEntropyLoss(ignore_index=-100)  # HERE",
        "0",
        "loss = criterion(scores.reshape(-1, 21), following.reshape(-1))",
    ),
    ("PAD = 20", "PAD", "loss = F.nll_loss(scores.log_softmax(-1).view(-1, 21), following.reshape(-1))  # HERE"),
)
COUNTS_NONE = (
    ("", "0", "loss = F.cross_entropy(scores.flatten(0, 1), following.flatten(), ignore_index=0)"),
    (
        "",
        "0",
        "each = F.cross_entropy(scores.transpose(1, 2), following, reduction='none')\n"
        "    loss = (each * real[:, 1:]).sum() / real[:, 1:].sum()",
    ),
    ("", "0", "loss = F.cross_entropy(scores[real[:, 1:]], following[real[:, 1:]])"),
    ("weight = torch.ones(21)\nweight[0] = 0", "0", "loss = F.cross_entropy(scores.mT, following, weight)"),
    ("eos = 20", "eos", "loss = F.cross_entropy(scores.transpose(1, 2), following)"),
    ("", "0", "loss = F.cross_entropy(scores.mT, torch.randint(0, 21, following.shape))"),
    ("", "0", "loss = F.cross_entropy(scores.mT, following.sort(descending=True).values % 2)"),
)


@pytest.mark.parametrize(("before", "pad", "loss"), COUNTS)
def test_targets_that_only_pad_are_told(before: str, pad: str, loss: str, tmp_path: Path) -> None:
    script = HEAD + LANGUAGE.format(before=before, pad=pad, loss=loss) + TRAIN
    assert_first_alarm(script, "padding_in_loss", tmp_path)


@pytest.mark.parametrize(("before", "pad", "loss"), COUNTS_NONE)
def test_padding_that_is_left_out_and_other_classes_are_right(before: str, pad: str, loss: str, tmp_path: Path) -> None:
    script = HEAD + LANGUAGE.format(before=before, pad=pad, loss=loss) + TRAIN
    assert "padding_in_loss" not in causes(script, tmp_path)


PACKED = """
layer, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    lengths = torch.tensor([7, 2, 5, 3])
    x, y = torch.randn(4, 7, 4), torch.randint(0, 3, (4, 7))
    real = torch.arange(7) < lengths[:, None]
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out, _ = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
    scores = head(torch.relu(out))
    {loss}
"""
COUNTS_ALL = (
    "nll = scores.logsumexp(-1) - scores.take_along_dim(y[..., None], -1).squeeze(-1)\n    loss = nll.mean()  # HERE",
    "loss = F.cross_entropy(scores.flatten(0, 1), y.flatten())  # HERE",
    "each = (scores - x[..., :3]).square().sum(-1)\n    loss = each.sum(1).mean()  # HERE",
)
COUNTS_REAL = (
    "nll = scores.logsumexp(-1) - scores.take_along_dim(y[..., None], -1).squeeze(-1)\n    loss = nll[real].mean()",
    "loss = F.cross_entropy(scores.flatten(0, 1), torch.where(real, y, -100).flatten())",
    "loss = ((scores - x[..., :3]).square() * real[..., None]).sum() / real.sum()",
    "loss = F.cross_entropy(scores[torch.arange(4), lengths - 1], y[:, 0])",
    "loss = F.cross_entropy(scores.masked_fill(~real[..., None], 0).sum(1) / lengths[:, None], y[:, 0])",
    "loss = F.cross_entropy(scores.mT, y, reduction='none')[real].mean()",
)
BY_HAND = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    wanted = nn.utils.rnn.pad_sequence([torch.randn(n, 2) for n in (7, 2, 5)], batch_first=True)
    real = torch.arange(7) < torch.tensor([7, 2, 5])[:, None]
    error = (model(torch.randn(3, 7, 4)) - wanted).square().sum(-1){mark}
    {loss}
"""


@pytest.mark.parametrize("loss", COUNTS_ALL)
def test_all_positions_of_unpacked_sequences_are_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PACKED.format(loss=loss) + TRAIN, "padding_in_loss", tmp_path)


@pytest.mark.parametrize("loss", COUNTS_REAL)
def test_real_positions_of_unpacked_sequences_are_right(loss: str, tmp_path: Path) -> None:
    assert "padding_in_loss" not in causes(HEAD + PACKED.format(loss=loss) + TRAIN, tmp_path)


def test_errors_of_padded_targets_by_hand_are_told_without_a_mask(tmp_path: Path) -> None:
    script = HEAD + BY_HAND.format(mark="  # HERE", loss="loss = error.mean()") + TRAIN
    assert_first_alarm(script, "padding_in_loss", tmp_path)
    script = HEAD + BY_HAND.format(mark="", loss="loss = (error * real).sum() / real.sum()") + TRAIN
    assert "padding_in_loss" not in causes(script, tmp_path)


SUMMARY = (
    BATCH
    + """
embed, head = nn.Embedding(21, 12, padding_idx=0), nn.Linear(12, 2)
layer, middle = nn.GRU(12, 12, batch_first=True), nn.Linear(12, 12)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters(), *layer.parameters()], lr=0.1)
for step in range(3):
    ids, real = batch()
    {summary}
    loss = F.cross_entropy(head(h), torch.randint(0, 2, (len(h),)))
"""
)
WITH_PADDING = (
    "h = embed(ids).mean(1)  # HERE",
    "h = F.relu(middle(F.dropout(embed(ids), 0.1))).transpose(1, 2)\n    h = h.mean(dim=-1)  # HERE",
    "h = layer(embed(ids))[0].mean(dim=1)  # HERE",
    "h = embed(ids).sum(1) / 10  # HERE",
    "out, _ = layer(embed(ids))\n    h = out[:, -1]  # HERE",
    "_, last = layer(embed(ids))  # HERE\n    h = last[-1]",
    "h = torch.relu(embed(ids.t())).mean(0)  # HERE",
    "h = F.embedding_bag(ids, embed.weight)  # HERE",
    "h = torch.einsum('btd->bd', embed(ids)) * (1 / 10)  # HERE",
    "h = F.avg_pool1d(embed(ids).mT, 10).squeeze(2)  # HERE",
    "x = layer(embed(ids))[0]\n    a = middle(x)[..., :1].softmax(1)  # HERE\n    h = (a * x).sum(dim=1)",
    "x = embed(ids)\n    a = torch.tanh(middle(x)).mean(2)\n    h = (a.softmax(1)[:, None] @ x).squeeze(1)  # HERE",
    "x = embed(ids)\n    a = F.softmax(x @ middle.bias, -1)  # HERE\n    h = torch.bmm(x.mT, a[..., None])[..., 0]",
    "x = embed(ids.t())\n    a = (x @ middle.bias).softmax(0)  # HERE\n    h = torch.einsum('tb,tbd->bd', a, x)",
    "x = embed(ids)\n    e = torch.exp(x @ middle.bias)\n    a = e / e.sum(1, keepdim=True)  # HERE\n"
    "    h = (F.dropout(a, 0.1).unsqueeze(-1) * middle(x)).sum(1)",
    "x = embed(ids)\n    q = middle.bias.expand(16, 1, 12)\n"
    "    h = F.scaled_dot_product_attention(q, middle(x), x)[:, 0]  # HERE",
    "x = embed(ids)\n    x = x + F.scaled_dot_product_attention(x, x, middle(x), is_causal=True)\n"
    "    h = F.layer_norm(x, (12,))[:, -1]  # HERE",
    "x = embed(ids)\n    x = x + F.scaled_dot_product_attention(x, x, x, is_causal=True)\n"
    "    score = F.linear(x, middle.weight[:1]).squeeze(-1)\n    h = score[:, -1]  # HERE\n"
    "    h = h[:, None].expand(-1, 12)",
)
WITHOUT_PADDING = (
    "h = (embed(ids) * real[..., None]).sum(1) / real.sum(1, keepdim=True)",
    "h = embed(torch.randint(0, 21, (16, 10))).mean(1)",
    "h = embed(torch.randint(0, 21, (16, 10)).sort(descending=True).values).mean(1)",
    "h = embed(ids).mean(1) / real.float().mean(1, keepdim=True)",
    "h = embed(ids).max(1).values",
    "h = F.embedding_bag(ids, embed.weight, padding_idx=0)",
    "h = F.embedding_bag(ids, embed.weight, per_sample_weights=real.float(), mode='sum')",
    "h = F.embedding_bag(ids, embed.weight) * 10 / real.sum(1, keepdim=True)",
    "h = F.embedding_bag(torch.randint(0, 21, (16, 10)), embed.weight)",
    "h = torch.einsum('btd->bd', embed(ids)) / real.sum(1, keepdim=True)",
    "h = layer(embed(ids))[0][torch.arange(16), real.sum(1) - 1]",
    "x = nn.utils.rnn.pack_padded_sequence(embed(ids), real.sum(1), batch_first=True, enforce_sorted=False)\n"
    "    h = layer(x)[1][-1]",
    "h = layer(embed(ids.flip(1)))[1][-1]",
    "h = embed(ids).mean(2)[:, :1].expand(-1, 12)",
    "x = embed(ids)\n    a = (x @ middle.bias).masked_fill(~real, -1e9).softmax(1)\n    h = (a[..., None] * x).sum(1)",
    "x = embed(ids)\n    a = (x @ middle.bias + real.float().log()).softmax(1)\n    h = (a[:, None] @ x).squeeze(1)",
    "x = embed(ids)\n    a = (x @ middle.bias).softmax(1) * real\n    a = a / a.sum(1, keepdim=True)\n"
    "    h = torch.einsum('bt,btd->bd', a, x)",
    "x = embed(ids)\n    e = (x @ middle.bias).exp() * real\n    a = e / e.sum(1, keepdim=True)\n"
    "    h = (a[:, None] @ x).squeeze(1)",
    "x = embed(ids)\n    s = x @ middle.bias\n    s[~real] = float('-inf')\n    h = (s.softmax(1)[:, None] @ x)[:, 0]",
    "x = embed(ids)\n    a = middle(x)[..., :4].softmax(2)\n    h = (a.mean(2, keepdim=True) * x).amax(1)",
    "x = embed(ids)\n    q = middle.bias.expand(16, 1, 12)\n"
    "    h = F.scaled_dot_product_attention(q, middle(x), x, real[:, None])[:, 0]",
    "x = embed(ids.flip(1))\n    x = x + F.scaled_dot_product_attention(x, x, x, is_causal=True)\n    h = x[:, -1]",
    "x = F.layer_norm(embed(ids), (12,))\n    h = x[:, 0]\n    for t in range(1, x.shape[1]):\n"
    "        h = torch.where((ids[:, t] != 0)[:, None], torch.logaddexp(h, x[:, t]), h)",
    "x = embed(ids)\n    x = x + F.scaled_dot_product_attention(x, x, x, is_causal=True)\n"
    "    h = x[torch.arange(16), real.sum(1) - 1]",
    "x = embed(ids)\n    x = x + F.scaled_dot_product_attention(x, x, x, is_causal=True)\n"
    "    print(x[:, -1].norm().item())\n    h = x[:, 0]",
    "x = embed(torch.randint(0, 21, (16, 10)))\n    a = (x @ middle.bias).softmax(1)\n"
    "    h = (a[..., None] * x).sum(1)",
)


@pytest.mark.parametrize("summary", WITH_PADDING)
def test_means_and_last_states_of_padding_are_told(summary: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SUMMARY.format(summary=summary) + TRAIN, "padding_in_summary", tmp_path)


@pytest.mark.parametrize("summary", WITHOUT_PADDING)
def test_what_leaves_padding_out_is_right(summary: str, tmp_path: Path) -> None:
    assert "padding_in_summary" not in causes(HEAD + SUMMARY.format(summary=summary) + TRAIN, tmp_path)


RECURRENT = """
layer, head = nn.{layer}, nn.Linear(8, 2)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn({shape})
    {read}
    loss = F.cross_entropy(head(h), torch.randint(0, 2, (16,)))
"""
FIRST = (
    ("LSTM(3, 8, batch_first=True)", "16, 5, 3", "out, _ = layer(x)\n    h = out[:, 0]  # HERE"),
    ("GRU(3, 8)", "5, 16, 3", "h = layer(x)[0]\n    h = h[0]  # HERE"),
    ("RNN(3, 8)", "5, 16, 3", "out, last = layer(x)\n    h = out.transpose(0, 1)[:, 0, :]  # HERE"),
    ("GRU(3, 8, 2, batch_first=True)", "16, 5, 3", "out, _ = layer(x)\n    h = out.select(1, 0)  # HERE"),
    ("GRU(3, 8)", "5, 16, 3", "out = layer(x)[0].flip(0)\n    h = torch.tanh(out)[-1]  # HERE"),
    ("LSTM(3, 8, batch_first=True)", "16, 5, 3", "out, _ = layer(x)\n    h = out.unbind(1)[0]  # HERE"),
    ("LSTM(3, 8, batch_first=True)", "16, 5, 3", "out = layer(x)[0]\n    h = out.narrow(1, 0, 1).squeeze(1)  # HERE"),
    (
        "RNN(3, 8)",
        "5, 16, 3",
        "out = layer(x)[0].permute(1, 2, 0)\n    h = F.dropout(out)[:, :, :1].flatten(1)  # HERE",
    ),
)
NOT_ONLY_FIRST = (
    ("LSTM(3, 8, batch_first=True)", "16, 5, 3", "h = layer(x)[0][:, -1]"),
    ("LSTM(3, 8, batch_first=True)", "16, 5, 3", "out, (last, _) = layer(x)\n    h = out[:, 0] + last[-1]"),
    ("GRU(3, 8)", "5, 16, 3", "out, _ = layer(x)\n    h = out[0] + out[4]"),
    ("GRU(3, 8, batch_first=True)", "16, 1, 3", "h = layer(x)[0][:, 0]"),
    ("GRU(3, 8)", "5, 16, 3", "h = layer(x)[1][0]"),
    ("GRU(3, 8)", "5, 16, 3", "h = layer(x)[0].flip(0)[0]"),
    ("GRU(3, 8)", "5, 16, 3", "h = layer(x)[0].flip(0)[:2].mean(0)"),
    ("LSTM(3, 8, batch_first=True)", "16, 5, 3", "out = layer(x)[0].unbind(1)\n    h = out[0] + out[-1]"),
)


@pytest.mark.parametrize(("layer", "shape", "read"), FIRST)
def test_the_first_time_step_alone_is_told(layer: str, shape: str, read: str, tmp_path: Path) -> None:
    script = HEAD + RECURRENT.format(layer=layer, shape=shape, read=read) + TRAIN
    assert_first_alarm(script, "first_step_only", tmp_path)
    assert causes(script, tmp_path) == {"first_step_only"}


@pytest.mark.parametrize(("layer", "shape", "read"), NOT_ONLY_FIRST)
def test_layers_of_which_more_is_used_are_right(layer: str, shape: str, read: str, tmp_path: Path) -> None:
    script = HEAD + RECURRENT.format(layer=layer, shape=shape, read=read) + TRAIN
    assert "first_step_only" not in causes(script, tmp_path)


EQUATION = """
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def slope(y, by):
    return torch.autograd.grad(y, by, torch.ones_like(y), create_graph=True)[0]
for step in range(3):
    {inputs}
    u = net(torch.cat([x, t], 1))
    {slopes}
"""
LEAVES = "x, t = torch.rand(8, 1, requires_grad=True), torch.rand(8, 1).requires_grad_()"
PARTS = "both = torch.rand(8, 2, requires_grad=True)\n    x, t = both[:, :1], both[:, 1:]"
GRAD = "torch.autograd.grad(u.sum(), {}, create_graph=True)[0]"
SAME = (
    (LEAVES, f"u_t = {GRAD.format('x')}  # HERE\n    u_x = {GRAD.format('x')}\n    loss = (u_t + u_x).square().mean()"),
    (LEAVES, "du_dx = slope(u, x)\n    du_dt = slope(u, x)  # HERE\n    loss = (du_dt + u * du_dx).pow(2).mean()"),
    (PARTS, "u_x = slope(u, x)\n    u_t = slope(u, x)  # HERE\n    loss = (u_t - u_x).pow(2).mean()"),
    (
        LEAVES,
        "u_x, u_t = slope(u, x), slope(u, t)\n    u_xx = slope(u_x, x)\n    u_tt = slope(u_x, x)  # HERE\n"
        "    loss = (u_tt - u_xx + u_t).pow(2).mean()",
    ),
)
APART = (
    (LEAVES, "u_x = slope(u, x)\n    u_t = slope(u, t)\n    loss = (u_t + u_x).pow(2).mean()"),
    (LEAVES, "u_x = slope(u, x)\n    flux_x = slope(u, x)\n    loss = (flux_x + u * u_x).pow(2).mean()"),
    (LEAVES, "u_x = slope(u, x)\n    u_xx = slope(u_x, x)\n    loss = (u_xx + u * u_x).pow(2).mean()"),
    (
        "x = torch.rand(8, 1, requires_grad=True)\n    t = torch.rand(8, 1)",
        "u_x = slope(u, x)\n    u_t = slope(u, x)\n    loss = (u_t + u_x).pow(2).mean()",
    ),
    (LEAVES, "u_x = slope(u, x)\n    u_t = slope(u * x, x)\n    loss = (u_t + u_x).pow(2).mean()"),
    (
        LEAVES,
        "u_x, u_t = torch.autograd.grad(u.sum(), [x, t], create_graph=True)\n    loss = (u_t + u_x).pow(2).mean()",
    ),
)


@pytest.mark.parametrize(("inputs", "slopes"), SAME)
def test_derivatives_with_the_name_of_another_are_told(inputs: str, slopes: str, tmp_path: Path) -> None:
    script = HEAD + EQUATION.format(inputs=inputs, slopes=slopes) + TRAIN
    assert_first_alarm(script, "same_derivative_twice", tmp_path)


@pytest.mark.parametrize(("inputs", "slopes"), APART)
def test_derivatives_by_different_inputs_are_right(inputs: str, slopes: str, tmp_path: Path) -> None:
    script = HEAD + EQUATION.format(inputs=inputs, slopes=slopes) + TRAIN
    assert "same_derivative_twice" not in causes(script, tmp_path)


FUNCTIONS = """
from torch.func import grad, jacrev, vmap
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def field(t, x):
    return net(torch.stack([t, x], -1)).squeeze(-1)
{made}
for step in range(3):
    t, x = torch.rand(8), torch.rand(8)
    {slopes}
"""
BOTH = "loss = (u_t(t, x) + 2 * u_x(t, x)).square().mean()"
OF_FUNCTIONS = (
    ("u_t = vmap(grad(field))\nu_x = vmap(grad(field))  # HERE", BOTH),
    ("u_t = vmap(grad(field, argnums=1))  # HERE\nu_x = vmap(grad(field, argnums=1))", BOTH),
    (
        "",
        "u_t = vmap(grad(field, 0))(t, x)\n    u_x = vmap(grad(field, 0))(t, x)  # HERE\n"
        "    loss = (u_t + 2 * u_x).square().mean()",
    ),
    (
        "class Flow:\n    def __init__(self):\n        self.u_t = vmap(grad(field))\n"
        "        self.u_x = vmap(grad(field))  # HERE\n    def residual(self, t, x):\n"
        "        return self.u_t(t, x) + 2 * self.u_x(t, x)\n",
        "loss = Flow().residual(t, x).square().mean()",
    ),
)
OTHER_FUNCTIONS = (
    ("u_t = vmap(grad(field))\nu_x = vmap(grad(field, argnums=1))", BOTH),
    ("u_t = vmap(grad(field))\nu_tt = vmap(grad(grad(field)))", "loss = (u_t(t, x) + u_tt(t, x)).square().mean()"),
    ("u_t = vmap(grad(field))", "loss = (u_t(t, x) + x * u_t(t, x)).square().mean()"),
    ("u_t = vmap(grad(field))\nu_x = vmap(grad(field))", "loss = (u_t(t, x) + 2 * u_x(x, t)).square().mean()"),
    (
        "both = vmap(grad(field, argnums=(0, 1)))",
        "u_t, u_x = both(t, x)\n    loss = (u_t + 2 * u_x).square().mean()",
    ),
)


@pytest.mark.parametrize(("made", "slopes"), OF_FUNCTIONS)
def test_two_functions_of_one_derivative_are_told(made: str, slopes: str, tmp_path: Path) -> None:
    script = HEAD + FUNCTIONS.format(made=made, slopes=slopes) + TRAIN
    assert_first_alarm(script, "same_derivative_twice", tmp_path)


@pytest.mark.parametrize(("made", "slopes"), OTHER_FUNCTIONS)
def test_functions_of_different_derivatives_are_right(made: str, slopes: str, tmp_path: Path) -> None:
    script = HEAD + FUNCTIONS.format(made=made, slopes=slopes) + TRAIN
    assert "same_derivative_twice" not in causes(script, tmp_path)


EPISODES = """
policy = nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
{function}
for episode in range(3):
    states = torch.randn(6, 4)
    distribution = torch.distributions.Categorical(logits=policy(states))
    action = distribution.sample()
    scores, rewards = distribution.log_prob(action), action.tolist()
    R, returns = 0.0, []
    {sums}
"""
WEIGHED = "loss = -(scores * torch.tensor(returns)).mean()"
LOOP = "for r in {}:\n        R = {}\n        returns.append(R)\n    "
FROM_BEFORE: tuple[tuple[str, str], ...] = (
    ("", LOOP.format("rewards", "r + 0.9 * R").replace(":", ":  # HERE", 1) + WEIGHED),
    (
        "",
        "for t in range(len(rewards)):  # HERE\n        r = rewards[t]\n        R = 0.9 * R + r\n"
        "        returns.append(R)\n"
        "    returns = torch.tensor(returns)\n    returns = (returns - returns.mean()) / (returns.std() + 1e-8)\n"
        "    loss = -(scores * returns).sum()",
    ),
    (
        "",
        LOOP.format("rewards", "r + 0.9 * R").replace(":", ":  # HERE", 1)
        + "loss = 0\n    for score, weight in zip(scores, returns):\n        loss = loss - score * weight",
    ),
    (
        "def discount(rewards):\n    total, sums = 0.0, torch.zeros(len(rewards))\n"
        "    for t, reward in enumerate(rewards):  # HERE\n        total = reward + 0.9 * total\n"
        "        sums[t] = total\n    return sums.float()",
        "loss = -(scores * discount(rewards)).mean()",
    ),
    (
        "def discount(rewards):\n    total, sums = 0.0, []\n    for reward in rewards:  # HERE\n"
        "        total = reward + 0.9 * total\n        sums.append(total)\n    return sums",
        "weights = discount(rewards)\n    loss = -(scores * torch.tensor(weights)).mean()",
    ),
)
MATRIX = "t = torch.arange(6.0)\ndiscount = torch.pow(0.9, (t[:, None] - t[None]).abs())"
AT_ONCE = "rewards = torch.stack([action.float(), 1.0 - action])\n    "
WEIGHED_AT_ONCE = "loss = -(scores * (returns - returns.mean(0))).sum(1).mean()"
FROM_BEFORE += (
    (
        MATRIX + ".tril()  # HERE",
        AT_ONCE + "returns = torch.einsum('ij,bj->bi', discount, rewards)\n    " + WEIGHED_AT_ONCE,
    ),
    (MATRIX + ".triu()  # HERE", AT_ONCE + "returns = rewards @ discount\n    " + WEIGHED_AT_ONCE),
    (
        MATRIX + "\ndiscount = discount * (t[:, None] >= t)  # HERE",
        AT_ONCE + "returns = F.linear(rewards, discount)\n    " + WEIGHED_AT_ONCE,
    ),
    (
        MATRIX + ".tril()  # HERE",
        AT_ONCE + "returns = (discount * rewards[:, None]).sum(-1)\n    " + WEIGHED_AT_ONCE,
    ),
    ("", AT_ONCE + "returns = rewards.cumsum(1)  # HERE\n    " + WEIGHED_AT_ONCE),
)
FROM_BEHIND = (
    (
        MATRIX + ".triu()",
        AT_ONCE + "returns = torch.einsum('ij,bj->bi', discount, rewards)\n    " + WEIGHED_AT_ONCE,
    ),
    (MATRIX + ".triu().T", AT_ONCE + "returns = rewards @ discount\n    " + WEIGHED_AT_ONCE),
    (
        MATRIX + "\ndiscount = discount * (t[:, None] <= t)",
        AT_ONCE + "returns = F.linear(rewards, discount)\n    " + WEIGHED_AT_ONCE,
    ),
    ("", AT_ONCE + "returns = rewards.flip(1).cumsum(1).flip(1)\n    " + WEIGHED_AT_ONCE),
    ("", AT_ONCE + "returns = rewards.sum(1, keepdim=True) - rewards.cumsum(1) + rewards\n    " + WEIGHED_AT_ONCE),
    ("", LOOP.format("reversed(rewards)", "r + 0.9 * R") + "returns.reverse()\n    " + WEIGHED),
    ("", LOOP.format("range(1, 7)", "rewards[-r] + 0.9 * R") + WEIGHED.replace("scores", "scores[[5, 4, 3, 2, 1, 0]]")),
    ("", LOOP.format("rewards[::-1]", "r + 0.9 * R") + "returns = returns[::-1]\n    " + WEIGHED),
    (
        "",
        LOOP.format("reversed(rewards)", "r + 0.9 * R").replace("append(", "insert(0, ") + WEIGHED,
    ),
    ("", LOOP.format("rewards", "r + 0.9 * R") + "print(sum(returns))\n    loss = -(scores * sum(rewards)).mean()"),
    (
        "",
        LOOP.format("rewards", "r + 0.9 * R")
        + "spread = torch.tensor(returns).std() + 1e-8\n    loss = -(scores * torch.tensor(rewards) / spread).mean()",
    ),
    (
        "def discount(xs):\n    total, sums = 0.0, []\n    for r in xs:\n        total = r + 0.9 * total\n"
        "        sums.append(total)\n    return torch.tensor(sums)",
        "loss = -(scores * discount(rewards[::-1]).flip(0)).mean()",
    ),
    (
        "",
        LOOP.format("rewards", "0.1 * r + 0.9 * R") + "loss = F.mse_loss(policy(states)[:, 0], torch.tensor(returns))",
    ),
)


@pytest.mark.parametrize(("function", "sums"), FROM_BEFORE)
def test_returns_of_the_rewards_before_an_action_are_told(function: str, sums: str, tmp_path: Path) -> None:
    script = HEAD + EPISODES.format(function=function, sums=sums) + TRAIN
    assert_first_alarm(script, "returns_from_before", tmp_path)


@pytest.mark.parametrize(("function", "sums"), FROM_BEHIND)
def test_returns_of_the_rewards_that_follow_and_other_sums_are_right(function: str, sums: str, tmp_path: Path) -> None:
    script = HEAD + EPISODES.format(function=function, sums=sums) + TRAIN
    assert "returns_from_before" not in causes(script, tmp_path)
