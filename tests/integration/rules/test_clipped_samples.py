"""Gradients of single samples that are clipped together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

PRIVATE = """
from torch.func import functional_call, grad, vmap
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def error(parameters, x, y):
    return F.cross_entropy(functional_call(net, parameters, (x[None],)), y[None])

for step in range(4):
    x, y = torch.randn(12, 4), torch.randint(0, 3, (12,))
    given = {name: p.detach() for name, p in net.named_parameters()}
    each = vmap(grad(error), in_dims=(None, 0, 0))(given, x, y)
    HOLE
    optimizer.step()
"""
END = "\n    for name, p in net.named_parameters():\n        g = each[name]\n        "
ROW = (
    "\n    for p, piece in zip(net.parameters(), total.split([p.numel() for p in net.parameters()])):\n"
    "        p.grad = piece.view_as(p) / 12"
)
FAULTY = (
    END + "factor = (1 / (g.norm() + 1e-6)).clamp(max=1)  # HERE\n        p.grad = (g * factor).mean(0)",
    END + "size = g.pow(2).sum().sqrt()  # HERE\n        factor = torch.clamp(0.5 / size, max=1.0)\n"
    "        p.grad = (factor * g).sum(dim=0) / 12 + 0.1 * torch.randn_like(p)",
    # One norm of all parameters.
    "norms = torch.stack([g.norm() for g in each.values()])  # HERE\n    size = norms.norm()" + END
    + "scaled = g / torch.clamp(size / 0.5, min=1.0)\n        p.grad = scaled.mean(0)",
    # All parameters in a row.
    "flat = torch.cat([g.flatten(1) for g in each.values()], dim=1)\n    size = flat.norm(2)  # HERE\n"
    "    total = (flat * (0.5 / size).clamp(max=1.0).unsqueeze(-1)).sum(0)" + ROW,
    "flat = torch.hstack([g.reshape(12, -1) for g in each.values()])\n    size = flat.square().sum()  # HERE\n"
    "    total = torch.einsum('np->p', flat) * (0.5 * size.rsqrt()).clamp(max=1.0)" + ROW,
    END + "factor = torch.clamp(0.5 / torch.linalg.vector_norm(g), max=1.0)  # HERE\n"
    "        p.grad = g.mean(0) * factor",
    # The sum of the samples is multiplied, and not each.
    "norms = torch._foreach_norm(list(each.values()))  # HERE\n"
    "    factor = (0.5 / torch.stack(norms).norm()).clamp(max=1)" + END + "p.grad = g.sum(0) * factor",
    "flat = torch.cat([g.flatten(1) for g in each.values()], dim=1)\n"
    "    factor = torch.where((size := torch.linalg.vector_norm(flat)) > 0.5, 0.5 / size, 1.0)  # HERE" + END
    + "p.grad = torch.einsum('n...->...', g) * factor",
)  # fmt: skip
HEALTHY = (
    END + "size = g.flatten(1).norm(dim=1)\n        factor = (1 / (size + 1e-6)).clamp(max=1)\n"
    "        p.grad = (g * factor.view(-1, *[1] * (g.dim() - 1))).mean(0)",
    "size = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)\n"
    "    factor = (0.5 / size).clamp(max=1)" + END + "p.grad = torch.einsum('b,b...->...', factor, g) / 12",
    "flat = torch.cat([g.flatten(1) for g in each.values()], dim=1)\n    size = flat.norm(2, dim=1)\n"
    "    total = (flat * (0.5 / size).clamp(max=1.0).unsqueeze(-1)).sum(0)" + ROW,
    "flat = torch.cat([g.flatten(1) for g in each.values()], dim=1).mean(0)\n"
    "    total = 12 * flat * (0.5 / flat.norm()).clamp(max=1.0)" + ROW,
    # The mean is clipped.
    END + "mean = g.mean(0)\n        p.grad = mean * (1 / (mean.norm() + 1e-6)).clamp(max=1)",
    END + "total = g.sum(0)\n        p.grad = total * (0.5 / total.norm()).clamp(max=1)",
    "flat = torch.cat([g.flatten(1) for g in each.values()], dim=1)\n"
    "    factor = (0.5 / flat.norm(dim=1)).clamp(max=1)" + END + "p.grad = torch.einsum('n,n...->...', factor, g)",
    # The size of all is only shown.
    "size = torch.stack(torch._foreach_norm(list(each.values()))).norm().clamp(max=9)\n    print(size)"
    + END
    + "p.grad = g.mean(0)",
    # A number that the gradients have no part in.
    END + "p.grad = (g * torch.tensor(0.5).clamp(max=1)).mean(0)",
)


@pytest.mark.parametrize("clip", FAULTY)
def test_one_norm_for_all_samples_is_told(clip: str, tmp_path: Path) -> None:
    script = HEAD + PRIVATE.replace("HOLE", clip)
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == "one_clip_for_all_samples"]
    assert [each.location and each.location.line for each in found] == [here]


@pytest.mark.parametrize("clip", HEALTHY)
def test_a_norm_of_each_sample_and_of_the_mean_are_left_alone(clip: str, tmp_path: Path) -> None:
    found = alarms(HEAD + PRIVATE.replace("HOLE", clip), tmp_path)
    assert "one_clip_for_all_samples" not in [each.cause for each in found]
