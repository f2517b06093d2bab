"""Log-scales that a loss adds up, also where a mask leaves their scales without effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NET = HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))\n"
NET += "optimizer = torch.optim.Adam(net.parameters())\n"
FLOW = NET + "mask = torch.tensor([1.0, 0.0, 1.0, 0.0])\nfor step in range(3):\n    x = torch.randn(16, 4)\n"
PARTS = "    s, t = net(x * mask).chunk(2, dim=1)\n"
NLL = "    loss = 0.5 * z.square().sum(1).mean() - log_det.mean()" + TRAIN
GAPS = NET + "for step in range(3):\n    x, seen = torch.randn(16, 4), torch.rand(16, 4) < 0.7\n"
GAPS += "    mean, log_var = net(x * seen).split(4, dim=1)\n"
STACK = (
    HEAD + "class Layer(nn.Module):\n    def __init__(self, kept):\n        super().__init__()\n"
    "        self.register_buffer('kept', kept[None])\n        self.s, self.t = nn.Linear(4, 4), nn.Linear(4, 4)\n"
    "    def forward(self, x):\n        h = self.kept * x\n        s = torch.tanh(self.s(h))\n"
    "        moved = torch.mul(x - self.t(h), torch.exp(-s))\n        z = torch.where(self.kept, x, moved)\n"
    "        return z, LOG_DET\n"
    "layers = nn.ModuleList(Layer((torch.arange(4) + i) % 2 == 0) for i in range(2))\n"
    "optimizer = torch.optim.Adam(layers.parameters())\n"
    "for step in range(3):\n    z, total = torch.randn(16, 4), 0.0\n    for layer in layers:\n"
    "        z, log_det = layer(z)\n        total = total + log_det\n"
    "    loss = -torch.mean(total - 0.5 * (z**2).sum(dim=1))" + TRAIN
)

FAULTS = {
    "a coupling": FLOW + PARTS + "    z = x * mask + (1 - mask) * (x * s.exp() + t)\n    log_det = s.sum(-1)  # HERE\n"
    + NLL,
    "a bounded scale, and the mask as a factor before": FLOW + PARTS
    + "    s = 2 * torch.tanh(s)\n    z = mask * x + (1 - mask) * x * torch.exp(s) + (1 - mask) * t\n"
    "    log_det = torch.sum(s, dim=1)  # HERE\n" + NLL,
    "layers with a condition": STACK.replace("LOG_DET", "-s.sum(dim=1)  # HERE"),
    "an addcmul() that where() selects from, and an einsum": FLOW + "    kept = mask.bool()\n" + PARTS
    + "    s = 2 * torch.tanh(s / 2)\n    z = torch.where(kept, x, torch.addcmul(t, x, s.exp()))\n"
    "    log_det = torch.einsum('bd->b', s)  # HERE\n" + NLL,
    "a lerp() between what is kept and what is moved": FLOW + PARTS
    + "    z = torch.lerp(x * s.exp() + t, x, mask)\n    log_det = s @ torch.ones(4)  # HERE\n" + NLL,
    "the logarithm of the product of all scales": FLOW + PARTS
    + "    scale = s.exp()\n    z = x * mask + (1 - mask) * (x * scale + t)\n"
    "    log_det = scale.prod(-1).log()  # HERE\n" + NLL,
    "a likelihood where values are missing": GAPS
    + "    error = (x - mean) ** 2 * torch.exp(-log_var) * seen\n    loss = 0.5 * (error + log_var).mean()  # HERE"
    + TRAIN,
    "a likelihood of selected values": GAPS
    + "    error = ((x - mean).square() * (-log_var).exp())[seen].sum()\n    loss = error / 64 + log_var.mean()  # HERE"
    + TRAIN,
}  # fmt: skip

HEALTHY = {
    "an einsum with the mask": FLOW + "    kept = mask.bool()\n" + PARTS
    + "    z = torch.where(kept, x, torch.addcmul(t, x, s.exp()))\n"
    "    log_det = torch.einsum('bd,d->b', s, (~kept).float())\n" + NLL,
    "a product with the mask": FLOW + PARTS
    + "    z = torch.lerp(x * s.exp() + t, x, mask)\n    log_det = s @ (1 - mask)\n" + NLL,
    "an affine layer of all dimensions": FLOW + PARTS
    + "    z = torch.addcmul(t, x, s.exp())\n    log_det = torch.einsum('bd->b', s)\n" + NLL,
    "a masked sum": FLOW + PARTS
    + "    z = x * mask + (1 - mask) * (x * s.exp() + t)\n    log_det = (s * (1 - mask)).sum(-1)\n" + NLL,
    "a masked scale": FLOW + PARTS
    + "    s = s * (1 - mask)\n    z = x * mask + (1 - mask) * (x * s.exp() + t)\n    log_det = s.sum(-1)\n" + NLL,
    "a scale that is masked before it is bounded": FLOW + PARTS
    + "    s = torch.tanh((1 - mask) * s)\n    z = x * mask + (1 - mask) * (x * s.exp() + t)\n"
    "    log_det = s.sum(-1)\n" + NLL,
    "halves": FLOW + "    a, b = x.chunk(2, 1)\n    s, t = net(torch.cat([a, a], 1)).split([2, 6], 1)\n"
    "    z = torch.cat([a, b * s.exp() + t[:, :2]], 1)\n    log_det = s.sum(1)\n" + NLL,
    "an elementwise flow of data with zeros and ones": FLOW.replace("torch.randn(16, 4)", "torch.rand(16, 4).round()")
    .replace(".round()", ".mul(1.5).sub(0.2).clamp(0, 1)") + "    s, t = net(x).chunk(2, dim=1)\n"
    "    z = x * s.exp() + t\n    log_det = s.sum(-1)\n" + NLL,
    "a likelihood that is masked as a whole": GAPS
    + "    loss = (0.5 * ((x - mean) ** 2 * torch.exp(-log_var) + log_var) * seen).sum() / seen.sum()" + TRAIN,
    "a divergence beside a masked reconstruction": GAPS
    + "    z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()\n"
    "    loss = ((z - x) * seen).square().mean() - 0.5 * (1 + log_var - mean**2 - log_var.exp()).mean()" + TRAIN,
    "the layers with a condition, masked": STACK.replace("LOG_DET", "-s.masked_fill(self.kept, 0.0).sum(dim=1)"),
    "a penalty of scales": GAPS
    + "    z = mean * log_var.exp() * seen\n    loss = (z - x).square().mean() + log_var.square().mean()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_log_scales_that_count_where_they_do_nothing_are_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[case], "scale_where_masked", tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_log_scales_that_count_where_they_act_are_left_alone(case: str, tmp_path: Path) -> None:
    assert "scale_where_masked" not in [each.cause for each in alarms(HEALTHY[case], tmp_path)]
