"""Masks that hide nothing, language models that see what comes next, and halves of layers that nothing uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ATTENTION = """
embed, qkv, head = nn.Embedding(12, 16), nn.Linear(16, 48), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*embed.parameters(), *qkv.parameters(), *head.parameters()], lr=0.01)
for step in range(3):
    lengths = torch.randint(3, 8, (6,))
    real = torch.arange(8)[None] < lengths[:, None]
    tokens = torch.randint(1, 12, (6, 8)) * real
    q, k, v = qkv(embed(tokens)).chunk(3, -1)
    scores = q @ k.transpose(1, 2) / 4
{attend}
    loss = F.cross_entropy(head((weights @ v)[:, 0]), torch.randint(0, 3, (6,)))
"""
WITHOUT_EFFECT = (
    "    scores = torch.where(real[:, None], scores, 0.0)  # HERE\n    weights = scores.softmax(-1)",
    "    scores = scores * real[:, None].float()  # HERE\n    weights = F.softmax(scores, dim=-1)",
    "    scores = scores + real[:, None].float()  # HERE\n    weights = scores.softmax(-1)",
    "    def hide(s, m):\n        return s.masked_fill(~m, -1)  # HERE\n"
    "    weights = torch.softmax(hide(scores, real[:, None, :]), 2)",
)
HIDDEN = (
    "    weights = torch.where(real[:, None], scores, float('-inf')).softmax(-1)",
    "    weights = scores.masked_fill(~real[:, None], -1e9).softmax(-1)",
    "    weights = (scores + (1 - real[:, None].float()) * -1e9).softmax(-1)",
    "    weights = torch.add(scores, 1 - real[:, None].float(), alpha=-1e9).softmax(-1)",
    "    weights = (scores + torch.where(real[:, None], 0.0, -1e9)).softmax(-1)",
    "    m = real[:, None].float()\n    weights = F.softmax(scores * m, -1) * m\n"
    "    weights = weights / weights.sum(-1, keepdim=True)",
    "    weights = scores.masked_fill(~real[:, :, None], 0.0).softmax(-1)",
    "    weights = (scores * (torch.rand(8) < 0.9)).softmax(-1)",
)


@pytest.mark.parametrize("attend", WITHOUT_EFFECT)
def test_a_mask_that_hides_nothing_is_told(attend: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ATTENTION.format(attend=attend) + TRAIN, "mask_without_effect", tmp_path)


@pytest.mark.parametrize("attend", HIDDEN)
def test_a_mask_that_hides_or_is_used_again_or_fills_rows_is_right(attend: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + ATTENTION.format(attend=attend) + TRAIN, tmp_path)


LANGUAGE = """
stream = torch.randint(0, 9, (200,))
embed, qkv, head = nn.Embedding(9, 16), nn.Linear(16, 48), nn.Linear(16, 9)
gru = nn.GRU(16, 8, batch_first=True, bidirectional=True)
conv = nn.Conv1d(16, 16, 3, padding={padding})
modules = embed, qkv, head, gru, conv
optimizer = torch.optim.Adam([p for each in modules for p in each.parameters()], lr=0.01)
for step in range(3):
    start = torch.randint(0, 180, (4,)).tolist()
    x = torch.stack([stream[i : i + 7] for i in start])
    y = torch.stack([stream[i + {shift} : i + {shift} + 7] for i in start])
    h = embed(x)
    q, k, v = qkv(h).chunk(3, -1)
{read}
    loss = F.cross_entropy(head(h).reshape(-1, 9), y.reshape(-1))
"""
SEES = (
    "    h = h + F.scaled_dot_product_attention(q, k, v)  # HERE",
    "    keep = torch.tril(torch.ones(7, 7), diagonal=1)  # HERE\n    scores = q @ k.transpose(1, 2)\n"
    "    h = h + scores.masked_fill(keep == 0, -1e9).softmax(-1) @ v",
    "    h = gru(h)[0]  # HERE",
    "    h = h + conv(h.transpose(1, 2)).transpose(1, 2)  # HERE",
)
CAUSAL = (
    "    h = h + F.scaled_dot_product_attention(q, k, v, is_causal=True)",
    "    scores = torch.einsum('bqd,bkd->bqk', q, k)\n    i = torch.arange(7)\n"
    "    h = h + scores.masked_fill(i[None] > i[:, None], float('-inf')).softmax(-1) @ v",
    "    h = h + F.conv1d(F.pad(h.transpose(1, 2), (2, 0)), conv.weight, conv.bias).transpose(1, 2)",
)


@pytest.mark.parametrize("read", SEES)
def test_a_language_model_that_reads_what_comes_next_is_told(read: str, tmp_path: Path) -> None:
    script = LANGUAGE.format(read=read, shift=1, padding=1)
    found = alarms(HEAD + script + TRAIN, tmp_path)
    here = next(number for number, line in enumerate((HEAD + script).splitlines(), start=1) if line.endswith("# HERE"))
    assert [each.location and each.location.line for each in found if each.cause == "future_visible"] == [here]


@pytest.mark.parametrize("read", SEES[:2])
def test_windows_that_begin_at_elements_of_a_tensor_are_known(read: str, tmp_path: Path) -> None:
    script = LANGUAGE.format(read=read, shift=1, padding=1).replace(".tolist()", "")
    assert_first_alarm(HEAD + script + TRAIN, "future_visible", tmp_path)


@pytest.mark.parametrize("read", CAUSAL)
def test_a_model_that_only_reads_what_came_before_is_right(read: str, tmp_path: Path) -> None:
    found = alarms(HEAD + LANGUAGE.format(read=read, shift=1, padding=1) + TRAIN, tmp_path)
    assert "future_visible" not in {each.cause for each in found}


@pytest.mark.parametrize("read", SEES)
def test_a_model_that_labels_the_same_positions_may_read_all_of_them(read: str, tmp_path: Path) -> None:
    found = alarms(HEAD + LANGUAGE.format(read=read, shift=0, padding=1) + TRAIN, tmp_path)
    assert "future_visible" not in {each.cause for each in found}


TWO_DIRECTIONS = """
layer = nn.{kind}(3, 8, batch_first=True, bidirectional=True)
head = nn.LazyLinear(2)
head(torch.zeros(1, {width}))
optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
for step in range(3):
    out, state = layer(torch.randn(16, 5, 3))
{read}
    loss = F.cross_entropy(head(h), torch.randint(0, 2, (16,)))
"""
ONE = (
    ("LSTM", 16, "    h = out[:, -1, :]  # HERE"),
    ("GRU", 16, "    h = out.select(1, -1)  # HERE"),
    ("GRU", 8, "    h = state[-1]  # HERE"),
    (
        "GRU",
        16,
        "    ahead, behind = out.chunk(2, -1)\n    h = torch.cat([ahead.select(1, -1), ahead.select(1, 0)], 1)  # HERE",
    ),
    ("LSTM", 8, "    h = out[..., :8].mean(1)  # HERE"),
    ("GRU", 8, "    h = out.narrow(-1, 8, 8).amax(1)  # HERE"),
)
BOTH = (
    ("LSTM", 16, "    h = torch.cat([out[:, -1, :8], out[:, 0, 8:]], 1)"),
    ("GRU", 16, "    h = torch.cat([state[-2], state[-1]], 1)"),
    ("GRU", 16, "    h = out.mean(1) + out[:, -1]"),
    ("GRU", 16, "    ahead, behind = out.split(8, -1)\n    h = torch.cat([ahead[:, -1], behind[:, 0]], 1)"),
    ("LSTM", 8, "    h = out[..., :8].mean(1) + state[0][-1]"),
    ("GRU", 8, "    h = out.view(16, 5, 2, 8).sum(2).mean(1)"),
)


@pytest.mark.parametrize(("kind", "width", "read"), ONE)
def test_one_direction_of_two_is_told(kind: str, width: int, read: str, tmp_path: Path) -> None:
    script = HEAD + TWO_DIRECTIONS.format(kind=kind, width=width, read=read) + TRAIN
    assert_first_alarm(script, "one_direction_only", tmp_path)


@pytest.mark.parametrize(("kind", "width", "read"), BOTH)
def test_both_directions_are_right(kind: str, width: int, read: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + TWO_DIRECTIONS.format(kind=kind, width=width, read=read) + TRAIN, tmp_path)


CONTRAST = """
encoder = nn.Linear(6, 4)
optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(8, 6)
    z = F.normalize(encoder(torch.cat([x, x + 0.1 * torch.randn(8, 6)])), dim=1)
    pair, rows = (torch.arange(16) + 8) % 16, torch.arange(16)
{contrast}
"""
ITSELF = (
    "    s = torch.einsum('nd,md->nm', z, z) / 0.2  # HERE\n    loss = -s.log_softmax(1)[rows, pair].mean()",
    "    e = torch.exp(z.mm(z.t()) / 0.2)  # HERE\n"
    "    loss = -torch.log(torch.exp((z * z[pair]).sum(1) / 0.2) / e.sum(1)).mean()",
    "    s = torch.inner(z, z) / 0.2  # HERE\n"
    "    loss = (s.logsumexp(1) - torch.linalg.vecdot(z, z[pair]) / 0.2).mean()",
    "    s = F.linear(z, z).div(0.2)  # HERE\n    s = s - s.amax(1, keepdim=True).detach()\n"
    "    loss = torch.logsumexp(s, dim=1).mean() - s[rows, pair].mean()",
    "    s = (z[:, None] * z[None]).sum(-1)  # HERE\n"
    "    loss = -(5 * s).softmax(-1).gather(1, pair[:, None]).log().mean()",
)
OTHERS = (
    "    s = z @ z.T / 0.2\n    s.fill_diagonal_(float('-inf'))\n    loss = F.cross_entropy(s, pair)",
    "    loss = F.cross_entropy(z @ z.T / 0.2 - 1e9 * torch.eye(16), pair)",
    "    loss = F.cross_entropy(z[:8] @ z[8:].T / 0.2, torch.arange(8))",
    "    e = torch.exp(z @ z.T / 0.2)\n    below = e.sum(1) - 2.718281828 ** 5\n"
    "    loss = (torch.log(below) - (z * z[pair]).sum(1) / 0.2).mean()",
    "    loss = F.cross_entropy((z @ z.T).softmax(1) @ z, torch.randint(0, 4, (16,)))",
    "    s = torch.inner(z, z) / 0.2\n    s = s[~torch.eye(16, dtype=torch.bool)].view(16, 15)\n"
    "    loss = (s.logsumexp(1) - torch.linalg.vecdot(z, z[pair]) / 0.2).mean()",
    "    s = F.linear(z, z).div(0.2) - 1e9 * torch.eye(16)\n    s = s - s.amax(1, keepdim=True).detach()\n"
    "    loss = torch.logsumexp(s, dim=1).mean() - s[rows, pair].mean()",
    "    s = torch.inner(z[:8], z[8:]) / 0.2\n    loss = (s.logsumexp(1) - s.diagonal()).mean()",
)


@pytest.mark.parametrize("contrast", ITSELF)
def test_a_sample_among_its_own_candidates_is_told(contrast: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + CONTRAST.format(contrast=contrast) + TRAIN, "similar_to_itself", tmp_path)


@pytest.mark.parametrize("contrast", OTHERS)
def test_a_table_without_its_diagonal_is_right(contrast: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + CONTRAST.format(contrast=contrast) + TRAIN, tmp_path)


POSITIONS = """
class Positions(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)
    def forward(self, x):
        {add}
positions = Positions({table})
embed, head = nn.Embedding(9, 8), nn.Linear(8, 2)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first={batch_first})
gru = nn.GRU(8, 8, batch_first=True)
modules = embed, layer, gru, head
optimizer = torch.optim.SGD([p for each in modules for p in each.parameters()], lr=0.1)
for step in range(3):
    x = embed(torch.randint(0, 9, (6, 5)))
    y = torch.randint(0, 2, (6,))
    {loss}
"""
ATTEND = "loss = F.cross_entropy(head(layer(positions(x)).mean(1)), y)"
RECUR = "loss = F.cross_entropy(head(gru(positions(x))[0][:, -1]), y)"
TIME_FIRST = "loss = F.cross_entropy(head(layer(positions(x.transpose(0, 1))).mean(0)), y)"
OF_TIME = "torch.randn(40, 1, 8)"


@pytest.mark.parametrize("loss", [ATTEND, RECUR])
def test_positions_along_the_batch_are_told(loss: str, tmp_path: Path) -> None:
    add = "return x + self.table[: x.size(0)]  # HERE"
    script = POSITIONS.format(add=add, table=OF_TIME, batch_first=True, loss=loss)
    assert_first_alarm(HEAD + script + TRAIN, "positions_of_samples", tmp_path)


@pytest.mark.parametrize(
    ("add", "table", "batch_first", "loss"),
    [
        ("return x + self.table[:, : x.size(1)]", "torch.randn(1, 40, 8)", True, ATTEND),
        ("return x + self.table[: x.size(1)].transpose(0, 1)", OF_TIME, True, ATTEND),
        ("return x + self.table[: x.size(0)]", OF_TIME, False, TIME_FIRST),
        ("return x + torch.randn(x.size(0), 1, 8)", OF_TIME, True, ATTEND),
    ],
)
def test_positions_along_the_time_and_shifts_of_samples_are_right(
    add: str, table: str, *, batch_first: bool, loss: str, tmp_path: Path
) -> None:
    script = POSITIONS.format(add=add, table=table, batch_first=batch_first, loss=loss)
    assert not any(each.cause == "positions_of_samples" for each in alarms(HEAD + script + TRAIN, tmp_path))
