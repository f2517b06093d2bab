"""Which positions of a sequence a program reads, in other spellings, and code that is right and looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_MIXED = """
class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(0.1 * torch.randn(7, 7))
        self.register_buffer("mask", torch.ones(7, 7).tril())
    def forward(self, h):
        t = h.size(1)
        return h + {mixed}
embed, mixer, head = nn.Embedding(9, 6), Mix(), nn.Linear(6, 9)
optimizer = torch.optim.Adam([*embed.parameters(), *mixer.parameters(), *head.parameters()], lr=0.01)
for step in range(3):
    tokens = torch.randint(0, 9, (5, 8))
    logits = head(mixer(embed(tokens[:, :-1])))
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
""" + TRAIN.replace("{", "{{")

_FORECAST = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(1, 6, 3{padding}), nn.Conv1d(6, 1, 1)
        self.gru = nn.GRU(1, 6, batch_first=True, bidirectional={both})
    def forward(self, x):
        x = x.unsqueeze(1)
        h = {body}
        return self.head(h.relu()).squeeze(1)
model = Net()
optimizer = torch.optim.SGD([p for n, p in model.named_parameters() if {used}], lr=0.05)
for step in range(3):
    series = torch.randn(8, 15).cumsum(1)
    past, future = {parts}
    out = model(past)
    loss = {loss}
""" + TRAIN.replace("{", "{{")


def _forecast(body: str, padding: int | str = 0, parts: str = "series[:, :-1], series[:, 1:]", loss: str = "") -> str:
    given = f", padding={padding!r}" if padding else ""
    loss = loss or "F.mse_loss(out, future)"
    used = "n[0] != 'c'" if "gru" in body else "n[0] != 'g'"
    return _FORECAST.format(body=body, padding=given, parts=parts, loss=loss, both=True, used=used)


_RECURRENT = "self.gru(x.mT)[0].unflatten(-1, (-1, 6)).sum(2).mT"
_WINDOWS = """
series = torch.randn(80).cumsum(0)
class Windows(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, i):
        past = series[i : i + 12]
        {future}
        return past, future
model = nn.Linear(12, {out})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for past, future in torch.utils.data.DataLoader(Windows(), batch_size=20, shuffle=True):
    {given}
    loss = {loss}
""" + TRAIN.replace("{", "{{")
_CENTRED = "level = past.mean(1, keepdim=True); out = level + model(past - level)"

_LOOKED_UP = """
series = torch.randn(80).cumsum(0)
model = nn.Linear(12, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    start = torch.randint(0, 60, (16,))
    past = series[start[:, None] + torch.arange(12)]
    future = series[start[:, None] + torch.arange({ahead})]{mark}
    loss = F.mse_loss(model(past), future)
""" + TRAIN.replace("{", "{{")
_STATES = """
layer, head = nn.GRU(3, 6, batch_first=True), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.05)
for step in range(3):
    lengths = torch.randint(2, 8, (16,))
    mask = (torch.arange(7) < lengths[:, None]).float()
    x = torch.randn(16, 7, 3) * mask[..., None]
    states, _ = layer(x)
    last = {last}
    out = {read}
    loss = F.cross_entropy(head(out), torch.randint(0, 2, (16,)))
""" + TRAIN.replace("{", "{{")
_ALONG = "states.take_along_dim(last[:, None, None], 1).squeeze(1)"
_GATHERED = "states.gather(1, last.view(-1, 1, 1).expand(-1, 1, 6))[:, 0]"
_INDEXED = "states[torch.arange(16), last]"

FAULTS = {
    "a trim of the first results, of a normalized kernel, without the first forecasts": (
        "future_visible",
        _forecast("self.conv(x)[..., 2:]  # HERE", 2, loss="F.mse_loss(out[:, 4:], future[:, 4:])").replace(
            "nn.Conv1d(1, 6, 3, padding=2)", "nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 6, 3, padding=2))"
        ),
    ),
    "a trim of the first results, in a forecast": ("future_visible", _forecast("self.conv(x)[..., 2:]  # HERE", 2)),
    "the same by narrow, and a loss by hand": (
        "future_visible",
        _forecast("self.conv(x).narrow(-1, 2, 14)  # HERE", 2, loss="(future - out)[:, 3:].square().mean()"),
    ),
    "a sequence that was padded on both sides": (
        "future_visible",
        _forecast("self.conv(F.pad(x, (2, 2)))[:, :, 2:]  # HERE", loss="F.huber_loss(out, future)"),
    ),
    "padding that keeps the length, in a forecast": (
        "future_visible",
        _forecast("self.conv(x)  # HERE", "same", "series[..., :-1], series[..., 1:]"),
    ),
    "a recurrent layer of two directions, in a forecast": (
        "future_visible",
        _forecast(_RECURRENT + "  # HERE"),
    ),
    "windows that are looked up": ("targets_are_inputs", _LOOKED_UP.format(ahead="9, 12", mark="  # HERE")),
    "the first one of a mask, by take_along_dim": (
        "first_step_only",
        _STATES.format(last="mask.argmax(1)", read=_ALONG + "  # HERE"),
    ),
    "the first one of a mask, by gather": (
        "first_step_only",
        _STATES.format(last="mask.max(1).indices", read=_GATHERED + "  # HERE"),
    ),
    "the first one of a mask, by an index": (
        "first_step_only",
        _STATES.format(last="mask.argmax(1)", read=_INDEXED + "  # HERE"),
    ),
    "the end of the window by narrow, of centred inputs": (
        "targets_are_inputs",
        _WINDOWS.format(
            future="future = series.narrow(0, i + 9, 3)  # HERE", out=3, given=_CENTRED, loss="F.mse_loss(out, future)"
        ),
    ),
    "the last value of the window": (
        "targets_are_inputs",
        _WINDOWS.format(
            future="future = past[-1:]  # HERE", out=1, given="out = model(past)", loss="(out - future).square().mean()"
        ),
    ),
    "one value by its number": (
        "targets_are_inputs",
        _WINDOWS.format(
            future="future = series[i + 11]  # HERE",
            out=1,
            given="out = model(past).squeeze(1)",
            loss="F.l1_loss(out, future)",
        ),
    ),
    "einsum over the rows of a lower triangle": (
        "future_visible",
        _MIXED.format(mixed='torch.einsum("ij,bid->bjd", self.mix[:t, :t].tril(), h)  # HERE'),
    ),
    "a product with the transposed lower triangle": (
        "future_visible",
        _MIXED.format(mixed="(self.mix * self.mask).T @ h  # HERE"),
    ),
    "features times a lower triangle": (
        "future_visible",
        _MIXED.format(mixed="(h.mT @ self.mix.tril()).mT  # HERE"),
    ),
    "a softmax of the wrong half": (
        "future_visible",
        _MIXED.format(mixed='self.mix.masked_fill(self.mask.tril(-1) == 1, float("-inf")).softmax(-1) @ h  # HERE'),
    ),
    "a matrix without a mask": (
        "future_visible",
        _MIXED.format(mixed="self.mix[:t, :t] @ h  # HERE"),
    ),
    "a linear layer over positions": (
        "future_visible",
        _MIXED.format(mixed="F.linear(h.mT, self.mix).mT  # HERE"),
    ),
}

HEALTHY = {
    "a trim of the last results, of a normalized kernel, without the first forecasts": _forecast(
        "self.conv(x)[..., :-2]", 2, loss="F.mse_loss(out[:, 4:], future[:, 4:])"
    ).replace("nn.Conv1d(1, 6, 3, padding=2)", "nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 6, 3, padding=2))"),
    "values that are kept as they are, without the first ones": _forecast(
        "self.conv(x)", 1, parts="series[:, :-1], series[:, :-1]", loss="F.mse_loss(out[:, 4:], future[:, 4:])"
    ),
    "a trim of the last results": _forecast("self.conv(x)[..., :-2]", 2),
    "a sequence that is padded in front": _forecast("self.conv(F.pad(x, (2, 0)))"),
    "a sequence that is padded on both sides, and trimmed at the end": _forecast(
        "self.conv(F.pad(x, (2, 2)))[..., :-2]"
    ),
    "values that are smoothed": _forecast("self.conv(x)", "same", "series + 0.1 * torch.randn(8, 15), series"),
    "values far ahead": _forecast("self.conv(x)", "same", "series[:, :-4], series[:, 4:]"),
    "a recurrent layer of one direction": _forecast(_RECURRENT).replace("bidirectional=True", "bidirectional=False"),
    "a grid whose states are stepped on": _forecast("self.conv(x)", "same")
    .replace("torch.randn(8, 15).cumsum(1)", "torch.randn(8, 15, 9).cumsum(1)")
    .replace("x.unsqueeze(1)", "x.reshape(-1, 1, 9)")
    .replace("squeeze(1)\nmodel", "view(8, 14, 9)\nmodel"),
    "what follows windows that are looked up": _LOOKED_UP.format(ahead="12, 15", mark=""),
    "what lies within windows that are looked up": _LOOKED_UP.format(ahead="5, 8", mark=""),
    "the last one of a mask, by take_along_dim": _STATES.format(last="mask.long().sum(1) - 1", read=_ALONG),
    "the last one of a mask, by gather": _STATES.format(last="lengths - 1", read=_GATHERED),
    "the last one of a mask, by an index": _STATES.format(last="6 - mask.flip(1).argmax(1)", read=_INDEXED),
    "what follows the window": _WINDOWS.format(
        future="future = series.narrow(0, i + 12, 3)", out=3, given=_CENTRED, loss="F.mse_loss(out, future)"
    ),
    "what a mask hides of the window": _WINDOWS.format(
        future="future = past[-3:]",
        out=3,
        given="out = model(past * (torch.arange(12) < 9))",
        loss="F.mse_loss(out, future)",
    ),
    "the window itself": _WINDOWS.format(
        future="future = series[i : i + 12]", out=12, given="out = model(past)", loss="F.mse_loss(out, future)"
    ),
    "einsum over the columns of a lower triangle": _MIXED.format(
        mixed='torch.einsum("ij,bjd->bid", self.mix[:t, :t].tril(), h)'
    ),
    "features times an upper triangle": _MIXED.format(mixed="(h.mT @ self.mix.triu()).mT"),
    "a masked matrix": _MIXED.format(mixed="(self.mix * self.mask) @ h"),
    "a softmax of the lower triangle": _MIXED.format(
        mixed='self.mix.masked_fill(self.mask == 0, float("-inf")).softmax(-1) @ h'
    ),
    "as many features as positions": _MIXED.format(mixed="F.linear(h, self.mix)").replace(
        "nn.Embedding(9, 6), Mix(), nn.Linear(6, 9)", "nn.Embedding(9, 7), Mix(), nn.Linear(7, 9)"
    ),
}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=FAULTS)
def test_fault(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_healthy(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []
