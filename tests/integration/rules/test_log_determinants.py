"""Log-determinants of one position, of layers that are applied at all positions of a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

NETWORK = """
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3) + 0.1 * torch.randn(3, 3))
        self.log_scale, self.scale = nn.Parameter(torch.zeros(1, 3, 1, 1)), nn.Parameter(torch.ones(3))
        self.net = nn.Conv2d(1, 4, 3, padding=1)

    def forward(self, x):
        {forward}

flow = Flow()
optimizer = torch.optim.SGD(flow.parameters(), lr=0.0001)
for step in range(3):
    x = torch.randn(8, {shape})
    z, logdet = flow(x)
    loss = {loss}
"""
COUPLE = (
    "a, b = z[:, :1], z[:, 1:]\n        s, t = self.net(a).tanh().chunk(2, 1)\n"
    "        z = torch.cat([a, b * s.exp() + t], 1)\n        logdet = logdet + s.sum((1, 2, 3))\n"
    "        return z, logdet"
)
NORMAL = "-(torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(dim=[1, 2, 3]) + logdet).mean()"
FLAT = "(0.5 * z.flatten(1).pow(2).sum(1) - logdet).mean()"
CONV = "z = F.conv2d(x, self.weight.view(3, 3, 1, 1))\n        "
PICTURE, TOKENS = "3, 4, 4", "10, 3"
EINSUM = 'z = torch.einsum("oc,bchw->bohw", self.weight, x)\n        '
SLOGDET = "torch.linalg.slogdet(self.weight)[1]"
ROWS = (
    "z = x.permute(0, 2, 3, 1).reshape(-1, 3) @ self.weight.T\n"
    "        z = z.view(len(x), 4, 4, 3).permute(0, 3, 1, 2)\n        return z, "
)
PRECISION = "p = self.weight @ self.weight.T + torch.eye(3)\n        "
FAULTY = (
    (CONV + "return z, torch.slogdet(self.weight)[1]  # HERE", PICTURE, NORMAL),
    (CONV + "logdet = torch.linalg.slogdet(self.weight).logabsdet  # HERE\n        " + COUPLE, PICTURE, FLAT),
    ("return x @ self.weight.T, self.weight.slogdet()[1].expand(len(x))  # HERE", TOKENS, FLAT),
    ("z = x * self.log_scale.exp()\n        return z, self.log_scale.sum()  # HERE", PICTURE, NORMAL),
    (
        "z = x * self.scale.view(1, 3, 1, 1)\n        logdet = torch.log(self.scale.abs()).sum()  # HERE\n        "
        + COUPLE,
        PICTURE,
        NORMAL,
    ),
    (CONV + "return z, torch.slogdet(self.weight)[1]  # HERE", PICTURE, "0.5 * z.square().sum() / len(z) - logdet"),
    (EINSUM + f"return z, {SLOGDET}  # HERE", PICTURE, NORMAL),
    (f'return torch.einsum("...c,dc->...d", x, self.weight), {SLOGDET}  # HERE', TOKENS, FLAT),
    (f"return torch.tensordot(x, self.weight, dims=1), {SLOGDET}  # HERE", TOKENS, FLAT),
    (ROWS + f"{SLOGDET}  # HERE", PICTURE, NORMAL),
    (CONV + "return z, torch.log(torch.abs(torch.det(self.weight)))  # HERE", PICTURE, NORMAL),
    (CONV + f"return z, {SLOGDET} * torch.ones(len(x))  # HERE", PICTURE, NORMAL),
    (CONV + f"return z, torch.stack([{SLOGDET}, 16 * self.scale.log().sum()]).sum()  # HERE", PICTURE, NORMAL),
    (CONV + f"return z, {SLOGDET}.expand(len(x))  # HERE", PICTURE, "z.square().sum((1, 2, 3)).mean() - logdet.mean()"),
)  # fmt: skip
HEALTHY = (
    (CONV + "return z, torch.slogdet(self.weight)[1] * x.shape[2] * x.shape[3]", PICTURE, NORMAL),
    (CONV + "logdet = 16 * torch.linalg.slogdet(self.weight)[1]\n        " + COUPLE, PICTURE, FLAT),
    ("return x @ self.weight.T, self.weight.slogdet()[1]", "3", FLAT),
    # One log-probability for each position.
    ("return x @ self.weight.T, self.weight.slogdet()[1]", TOKENS, "(0.5 * z.pow(2).sum(-1) - logdet).mean()"),
    ("z = x * self.log_scale.exp()\n        return z, self.log_scale.sum() * x[0, 0].numel()", PICTURE, NORMAL),
    ("z = x * self.log_scale.exp()\n        return z, self.log_scale.expand_as(x).sum((1, 2, 3))", PICTURE, NORMAL),
    # A penalty of the weights.
    (CONV + "return z, -self.weight.square().sum()", PICTURE, NORMAL),
    # A mean over the positions.
    (CONV + "return z, torch.slogdet(self.weight)[1]", PICTURE, "(z.square().sum(1).mean((1, 2)) - 2 * logdet).mean()"),
    (CONV + "return z, torch.slogdet(self.weight)[1]", PICTURE, "(z.square().sum((1, 2, 3)) / 32 - logdet).mean()"),
    (EINSUM + f"return z, 16 * {SLOGDET}", PICTURE, NORMAL),
    (EINSUM + f"return z, {SLOGDET} * x.shape[2] * x.shape[3]", PICTURE, NORMAL),
    (EINSUM + f"return z, {SLOGDET}", PICTURE, "(0.5 * z.pow(2).sum(1).mean((1, 2)) - logdet).mean()"),
    (EINSUM + f"return z, {SLOGDET}", PICTURE, "z.square().sum((1, 2, 3)).mean() / 16 - logdet"),
    (f'return torch.einsum("bc,dc->bd", x, self.weight), {SLOGDET}', "3", FLAT),
    (ROWS + f"16 * {SLOGDET}", PICTURE, NORMAL),
    (CONV + f"return z, {SLOGDET} * torch.tensor(16.0)", PICTURE, NORMAL),
    (CONV + f"return z, torch.stack([{SLOGDET}.expand(len(x))] * 16).sum(0)", PICTURE, NORMAL),
    (CONV + f"return z, ({SLOGDET} * torch.ones(len(x), 16)).sum(1)", PICTURE, NORMAL),
    # Each row is a sample of its own.
    (f"return x.reshape(-1, 3) @ self.weight.T, {SLOGDET}", TOKENS, FLAT),
    # The density of a Gaussian at each position, with its precision.
    (PRECISION + 'return torch.einsum("bti,ij,btj->bt", x, p, x), p.logdet()', TOKENS, "0.5 * (z - logdet).mean()"),
    (
        PRECISION + 'return torch.einsum("bti,ij,btj->bt", x, p, x), p.logdet()',
        TOKENS,
        "0.5 * (z.sum(1) - 10 * logdet).mean()",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("forward", "shape", "loss"), FAULTY)
def test_log_determinants_of_one_position_are_told(forward: str, shape: str, loss: str, tmp_path: Path) -> None:
    script = HEAD + NETWORK.format(forward=forward, shape=shape, loss=loss) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == "log_determinant_of_one_position"]
    assert [each.location and each.location.line for each in found] == [here]


@pytest.mark.parametrize(("forward", "shape", "loss"), HEALTHY)
def test_counted_positions_are_left_alone(forward: str, shape: str, loss: str, tmp_path: Path) -> None:
    found = alarms(HEAD + NETWORK.format(forward=forward, shape=shape, loss=loss) + TRAIN, tmp_path)
    assert "log_determinant_of_one_position" not in [each.cause for each in found]
