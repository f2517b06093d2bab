"""Networks of linear layers alone, where the layers are calls with parameters of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NETWORK = """
w1, w2 = (nn.Parameter(0.3 * torch.randn(*size)) for size in {sizes})
b1, b2 = nn.Parameter(torch.zeros(w1.shape[-1])), nn.Parameter(torch.zeros(w2.shape[-1]))
optimizer = torch.optim.SGD([w1, w2, b1, b2], lr=0.1)
for step in range(3):
    x, y = torch.randn(32, 6), torch.randint(3, (32,))
{layers}
    loss = F.cross_entropy(out, y)
"""
FLAT, HEADS, ENSEMBLE = "((6, 24), (24, 3))", "((6, 4, 8), (4, 8, 3))", "((4, 6, 24), (4, 24, 3))"


def _script(sizes: str, layers: str) -> str:
    return HEAD + NETWORK.format(sizes=sizes, layers=layers) + TRAIN


@pytest.mark.parametrize(
    ("sizes", "layers"),
    [
        (FLAT, "    h = x @ w1 + b1\n    out = h @ w2 + b2  # HERE"),
        (FLAT, "    h = torch.einsum('ni,ij->nj', x, w1)\n    out = torch.einsum('nj,jk->nk', h, w2)  # HERE"),
        (FLAT, "    h = torch.addmm(b1, x, w1)\n    out = torch.tensordot(h, w2, dims=1).add(b2)  # HERE"),
        (HEADS, "    h = torch.einsum('ni,ihd->nhd', x, w1)\n    out = torch.einsum('nhd,hdk->nk', h, w2)  # HERE"),
        (
            ENSEMBLE,
            "    h = torch.baddbmm(b1, x.expand(4, -1, -1), w1)\n"
            "    each = torch.baddbmm(b2, h, w2)  # HERE\n    out = each.mean(0)",
        ),
    ],
)
def test_layers_with_nothing_between_them_are_told(sizes: str, layers: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(sizes, layers), "no_nonlinearity", tmp_path)


@pytest.mark.parametrize(
    ("sizes", "layers"),
    [
        (FLAT, "    h = (x @ w1 + b1).relu()\n    out = h @ w2 + b2"),
        (FLAT, "    h = torch.einsum('ni,ij->nj', x, w1).clamp(min=0)\n    out = torch.einsum('nj,jk->nk', h, w2)"),
        (FLAT, "    h = x @ w1\n    out = (h * h.softmax(1)) @ w2 + b2"),
        # The product of two parameters of low rank is meant.
        ("((6, 2), (2, 3))", "    out = x @ w1 @ w2 + b2"),
        (
            "((6, 2, 8), (2, 8, 3))",
            "    out = torch.einsum('nhd,hdk->nk', torch.einsum('ni,ihd->nhd', x, w1).tanh(), w2)",
        ),
        (ENSEMBLE, "    h = torch.baddbmm(b1, x.expand(4, -1, -1), w1).sin()\n    out = torch.bmm(h, w2).mean(0)"),
    ],
)
def test_layers_with_a_function_between_them_and_bottlenecks_are_right(sizes: str, layers: str, tmp_path: Path) -> None:
    assert "no_nonlinearity" not in [each.cause for each in alarms(_script(sizes, layers), tmp_path)]
