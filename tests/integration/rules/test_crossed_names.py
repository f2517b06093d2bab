"""Calls that give two arguments, or take two results, in the order of each other's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ACTOR = """
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)
{define}
for step in range(4):
    states, rewards = torch.randn(8, 4), torch.rand(8)
    values = critic(states).squeeze(1)
    log_p = actor(states).log_softmax(1)[:, 0]
    {use}
    loss = (rewards - values).square().mean() - (log_p * gain.detach()).mean()"""
GAIN = "def gain_of(rewards, values, decay=0.9):\n    return rewards + decay * values.roll(-1) - values"
PAIR = """
def both(rewards, values):
    gain = rewards - values
    returns = gain + values
    return gain, returns
"""
CODER = """
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 4)

    def encode(self, x):
        mean, spread = self.body(x).chunk(2, 1)
        return mean, spread

    def forward(self, x):
        {take} = self.encode(x)
        return mean + torch.randn_like(mean) * (0.5 * spread).exp()

coder, head = Coder(), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*coder.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 6)
    loss = F.mse_loss(head(coder(x)), x)"""
FIELD = """
class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 1)

    def forward(self, x, t):
        return self.body(torch.cat([x, t], 1)).tanh()

u = Field()
optimizer = torch.optim.SGD(u.parameters(), lr=0.1)
for step in range(4):
    x, t, x0, t0 = torch.rand(8, 1), torch.rand(8, 1), torch.rand(8, 1), torch.zeros(8, 1)
    loss = (u(x, t) - x * t).square().mean()
    loss = loss + (u({start}) - x0).square().mean()"""
FAULTY = (
    ACTOR.format(define=GAIN, use="gain = gain_of(values, rewards)  # HERE"),
    ACTOR.format(define=GAIN, use="gain = gain_of(rewards=values, values=rewards, decay=0.5)  # HERE"),
    ACTOR.format(define=PAIR, use="returns, gain = both(rewards, values)  # HERE"),
    CODER.format(take="spread, mean").replace("self.encode(x)\n", "self.encode(x)  # HERE\n"),
    FIELD.format(start="t0, x0").replace("x0).square().mean()", "x0).square().mean()  # HERE"),
)
HEALTHY = (
    ACTOR.format(define=GAIN, use="gain = gain_of(rewards, values)"),
    # Both orders on purpose; names of which one fits; a lambda and a function of a library.
    ACTOR.format(define=GAIN, use="gain = gain_of(rewards, values) - gain_of(values, rewards)"),
    ACTOR.format(define=GAIN, use="gain = gain_of(rewards, values.detach()) + torch.sub(values, rewards)"),
    ACTOR.format(define="def mix(source, target):\n    return source - 0.5 * target",
                 use="source, target = rewards, values\n    gain = mix(target, source)"),
    CODER.format(take="mean, spread"),
    FIELD.format(start="x0, t0"),
)  # fmt: skip


@pytest.mark.parametrize("script", FAULTY)
def test_crossed_names_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "arguments_in_other_order", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_names_in_order_or_crossed_on_purpose_raise_no_alarm(script: str, tmp_path: Path) -> None:
    assert "arguments_in_other_order" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}


def test_a_call_that_never_ran_is_left_alone(tmp_path: Path) -> None:
    unused = f"\ndef unused(rewards, values):\n    return gain_of(values, rewards)\n{ACTOR}"
    script = unused.format(define=GAIN, use="gain = gain_of(rewards, values)")
    assert alarms(HEAD + script + TRAIN, tmp_path) == []


STATES = """
net, out = nn.{made}, nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *out.parameters()], lr=0.1)
for step in range(2):
    x, a, b = torch.randn(3, 8, 2), torch.zeros({zeros}), torch.zeros({zeros})
    for part in x{parts}:
        {call}
    loss = out({read}).square().mean()
"""
CAUSE = "arguments_in_other_order"
CELL = {"made": "LSTMCell(2, 4)", "zeros": "8, 4", "parts": ""}
LAYER = {"made": "LSTM(2, 4)", "zeros": "1, 8, 4", "parts": ".split(1)"}


@pytest.mark.parametrize(
    ("made", "call", "read"),
    [
        (CELL, "b, a = net(part, (a, b))  # HERE", "a"),
        (CELL, "a, b = net(part, (b, a))  # HERE", "a"),
        (CELL, "a, b = (each.detach() for each in net(part, (b, a)))  # HERE", "net(part, (a, b))[0]"),
        (LAYER, "y, (b, a) = net(part, (a, b))  # HERE", "y"),
    ],
)
def test_states_that_an_lstm_gets_in_the_other_order_are_told(
    made: dict[str, str], call: str, read: str, tmp_path: Path
) -> None:
    script = HEAD + STATES.format(**made, call=call, read=read) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == CAUSE]
    assert [each.location and each.location.line for each in found] == [here]


@pytest.mark.parametrize(
    ("made", "call", "read"),
    [
        (CELL, "a, b = net(part, (a, b))", "a"),
        (CELL, "b, a = net(part, (b, a))", "b"),
        (CELL, "a, b = net(part, (a.detach(), 0.9 * b))", "b"),
        (CELL, "a, a = net(part, (a, a))", "a"),
        (LAYER, "y, (a, b) = net(part, (a, b))", "y"),
        (LAYER, "y, (a, b) = net(part)", "b"),
    ],
)
def test_states_in_their_order_are_right(made: dict[str, str], call: str, read: str, tmp_path: Path) -> None:
    found = alarms(HEAD + STATES.format(**made, call=call, read=read) + TRAIN, tmp_path)
    assert CAUSE not in {each.cause for each in found}


DECODER = (
    HEAD
    + """
encoder, decoder = nn.LSTM(2, 4, batch_first=True), nn.LSTM(2, 4, batch_first=True)
cell, out = nn.LSTMCell(2, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), *cell.parameters(), *out.parameters()], 0.1)
for _ in range(3):
    source = torch.randn(8, 5, 2)
    _, (h, c) = encoder(source)
    {decoded}
    loss = (out(result) - source[:, -1:].mean(2, keepdim=True)).square().mean()
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "decoded",
    ["result, _ = decoder(source, (c, h))  # HERE", "state = c.tanh(), h; result, _ = decoder(source, state)"],
)
def test_a_decoder_that_gets_the_states_of_its_encoder_in_the_other_order_is_told(decoded: str, tmp_path: Path) -> None:
    found = [each for each in alarms(DECODER.format(decoded=decoded), tmp_path) if each.cause == CAUSE]
    assert bool(found) is ("HERE" in decoded), "what is computed from a state may be meant"
    assert all("another LSTM" in each.message for each in found)


@pytest.mark.parametrize(
    "decoded",
    [
        "result, _ = decoder(source, (h, c))",
        "_, (later, kept) = decoder(source, (h, c)); result, _ = decoder(source, (kept, c))",
    ],
)
def test_states_of_an_encoder_in_their_order_and_of_several_calls_are_right(decoded: str, tmp_path: Path) -> None:
    assert CAUSE not in {each.cause for each in alarms(DECODER.format(decoded=decoded), tmp_path)}
