"""Noise that is drawn once for all steps, and constants that only look like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CODER = """
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 8), nn.Linear(4, 6)
        {at_first}

    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, 1)
        return self.decode({sample}), mean, spread

model = Coder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(99, 6)
for step in range(5):
    x = data[torch.randint(0, 99, (16,))]
    out, mean, spread = model(x)
    loss = F.mse_loss(out, x) + 0.01 * (mean.square() + spread.exp() - spread).mean()"""
CLEAN = """
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 6))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(99, 6)
{before}
for step in range(5):
    x = {batch}
    loss = {loss}"""
NEW = "data[torch.randint(0, 99, (16,))]"
FAULTY = (
    CODER.format(at_first="self.register_buffer('noise', torch.randn(16, 4))  # HERE",
                 sample="mean + (spread / 2).exp() * self.noise[: len(x)]").replace("[: len(x)]", ""),
    CODER.format(at_first="self.eps = torch.randn(16, 4)  # HERE", sample="self.eps * (spread * 0.5).exp() + mean"),
    CLEAN.format(before="noise = torch.randn(16, 6)  # HERE", batch=NEW, loss="F.mse_loss(net(x + 0.3 * noise), x)"),
    CLEAN.format(before="noise = torch.randn(16, 6)  # HERE\nkeep = torch.linspace(0.9, 0.1, 16)[:, None]", batch=NEW,
                 loss="F.mse_loss(net(keep.sqrt() * x + (1 - keep).sqrt() * noise), noise)"),
    CLEAN.format(before="first = nn.Linear(6, 6)\noptimizer.add_param_group({'params': first.parameters()})\n"
                        "noise = torch.randn(16, 6)  # HERE", batch=NEW,
                 loss="F.mse_loss(net(first(x).detach() + 0.3 * noise), x) + first(x).square().mean()"),
)  # fmt: skip
HEALTHY = (
    CODER.format(at_first="pass", sample="mean + (spread / 2).exp() * torch.randn_like(mean)"),
    # One noise for all samples, as a code of positions; noise that belongs to the data.
    CLEAN.format(before="places = torch.randn(6)", batch=NEW, loss="F.mse_loss(net(x + places), x)"),
    CLEAN.format(before="noise = torch.randn(99, 6)\nnoisy = data + noise\npick = torch.randint(0, 99, (16,))",
                 batch="noisy[torch.randint(0, 99, (16,))]", loss="F.mse_loss(net(x), x.tanh())"),
    CLEAN.format(before="noise = torch.randn(99, 6)", batch="data", loss="F.mse_loss(net(x + 0.1 * noise), x)"),
    # Two parts of a rule by which targets are made, both drawn once.
    CLEAN.format(before="rule, change = torch.randn(6, 6) / 3, torch.randn(6, 2) @ torch.randn(2, 6) / 9", batch=NEW,
                 loss="F.mse_loss(net(x), (x @ (rule + change)).tanh())"),
    # Weights of samples, drawn for a full batch.
    CLEAN.format(before="gain = torch.randn(99, 6)", batch="data", loss="-(net(x).log_softmax(1) * gain).mean()"),
    # The data are random numbers, all of them in each batch, and the noise is new: its scale is one for each sample.
    CLEAN.format(before="all_of_it = torch.randn(16, 6)", batch="all_of_it",
                 loss="F.mse_loss(net((1 - (t := torch.rand(16, 1))).sqrt() * x"
                      " + t.sqrt() * (noise := torch.randn(16, 6))), noise)"),
    # The same, and a new mask hides some of each sample.
    CLEAN.format(before="all_of_it = torch.rand(16, 6)", batch="all_of_it",
                 loss="F.mse_loss(net(x * (torch.rand_like(x) > 0.2)), x)"),
    # Noise for pictures that are only shown.
    CLEAN.format(before="fixed = torch.randn(16, 6)", batch=NEW,
                 loss="F.mse_loss(net(x), x)\n    with torch.no_grad():\n        print(net(fixed + x).mean())"),
    # A table of rewards, and the values of what follows: these change with the parameters, not with data.
    CLEAN.format(before="values, rewards = nn.Parameter(torch.zeros(6)), torch.randn(6, 6)\n"
                        "follow = torch.rand(6, 6, 6).softmax(-1)\noptimizer = torch.optim.SGD([values], lr=1.0)",
                 batch="values.detach()",
                 loss="F.mse_loss(values, (rewards + 0.9 * follow @ x).amax(1))"),
)  # fmt: skip

PLAYERS = """
make, judge = nn.Sequential(nn.Linear({width}, 16), nn.ReLU(), nn.Linear(16, 6)), nn.Linear(6, 1)
first = torch.optim.SGD(make.parameters(), lr=0.1)
second, data = torch.optim.SGD(judge.parameters(), lr=0.1), torch.randn(320, 6)
{before}
for real in data.split(32):
    fake = make({latent})
    against = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
    second.zero_grad()
    against.backward()
    second.step()
    loss = F.softplus(-judge(fake)).mean()
    first.zero_grad()
    loss.backward()
    first.step()
"""
DIFFUSION = """
net = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 6))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data, kept = torch.rand(320, 6), torch.linspace(0.99, 0.5, 50).cumprod(0)
{before}
for x in data.split(32):
    noise = torch.randn_like(x)
    {noisy}
"""
HIDDEN = """
embed, layer, head = nn.Embedding(9, 8), nn.GRU(8, 8, batch_first=True, bidirectional=True), nn.Linear(16, 9)
optimizer = torch.optim.SGD([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.1)
data = torch.randint(1, 9, (320, 7))
{before}
for tokens in data.split(32):
    scores = head(layer(embed(tokens.masked_fill(hidden, 0)))[0])
    loss = F.cross_entropy(scores[hidden], tokens[hidden])
"""
FILLED = """
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data, drawn = torch.rand(320, 8), torch.rand(32, 8) < 0.3  # HERE
for x in data.split(32):
    y = x.cumsum(1)
    {seen}
    loss = {loss}
"""
PLAYED_ONCE = (
    PLAYERS.format(width=5, before="z = torch.randn(32, 5)  # HERE", latent="z"),
    PLAYERS.format(width=9, before="z, labels = torch.rand(32, 5), nn.Embedding(3, 4)  # HERE\n"
                                   "first.add_param_group({'params': labels.parameters()})",
                   latent="torch.cat([z, labels(torch.randint(0, 3, (32,)))], 1)"),
    DIFFUSION.format(before="t = torch.randint(0, 50, (32,))  # HERE",
                     noisy="a = kept[t].unsqueeze(1)\n    mixed = a.sqrt() * x + (1 - a).sqrt() * noise\n    "
                           "loss = F.mse_loss(net(torch.cat([mixed, t[:, None] / 50], 1)), noise)") + TRAIN,
    DIFFUSION.format(before="t = torch.rand(32, 1)  # HERE",
                     noisy="loss = F.mse_loss(net(torch.cat([t * x + (1 - t) * noise, t], 1)), x - noise)") + TRAIN,
    HIDDEN.format(before="hidden = torch.rand(32, 7) < 0.2  # HERE") + TRAIN,
    FILLED.format(seen="seen = x * (1 - drawn.float())", loss="((net(seen) - x) * drawn).square().mean()") + TRAIN,
    FILLED.format(seen="seen = torch.where(drawn, torch.zeros(()), x)", loss="F.mse_loss(net(seen)[drawn], x[drawn])")
    + TRAIN,
)  # fmt: skip
PLAYED_ANEW = (
    # Padding is hidden from both.
    FILLED.format(seen="seen = x * drawn", loss="((net(seen) - y).square() * drawn).mean()") + TRAIN,
    FILLED.format(seen="seen = x.masked_fill(drawn, 0.0)", loss="((net(seen) - y).square() * ~drawn).mean()") + TRAIN,
    # A fixed one is for pictures.
    PLAYERS.format(width=5, before="shown = torch.randn(32, 5)\nwith torch.no_grad():\n    make(shown)",
                   latent="torch.randn(32, 5)"),
    # A code for each place that joins new noise.
    PLAYERS.format(width=5, before="place = torch.randn(32, 2)", latent="torch.cat([place, torch.randn(32, 3)], 1)"),
    # All data in each batch, each with its own time.
    DIFFUSION.format(before="t = torch.rand(32, 1)\nsome = data[:32]",
                     noisy="loss = F.mse_loss(net(torch.cat([some, t], 1)), t * some)") + TRAIN,
    # Weights of classes, which a network gets, too.
    DIFFUSION.format(before="y, w = torch.randint(0, 3, (32,)), torch.tensor([1.0, 2.0, 0.5])",
                     noisy="loss = (F.cross_entropy(net(torch.cat([x, y[:, None]], 1)), y, reduction='none')"
                           " * w[y]).mean()") + TRAIN,
    HIDDEN.format(before="mask = torch.rand(32, 7) < 0.2").replace("    scores", "    hidden = torch.rand(32, 7) < 0.2"
                                                                   "\n    scores") + TRAIN,
)  # fmt: skip


@pytest.mark.parametrize("script", PLAYED_ONCE)
def test_latents_times_and_masks_that_all_steps_share(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, "noise_drawn_once", tmp_path)


@pytest.mark.parametrize("script", PLAYED_ANEW)
def test_latents_times_and_masks_of_each_step(script: str, tmp_path: Path) -> None:
    assert "noise_drawn_once" not in {each.cause for each in alarms(HEAD + script, tmp_path)}


@pytest.mark.parametrize("script", FAULTY)
def test_noise_that_all_steps_share_is_told_where_it_is_drawn(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "noise_drawn_once", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_constants_and_noise_of_each_step_raise_no_alarm(script: str, tmp_path: Path) -> None:
    assert "noise_drawn_once" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
