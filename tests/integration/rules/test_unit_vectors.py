"""Vectors that are scaled to a length of one over another axis than that of the product that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

VECTORS = """
images, words = nn.Linear(10, 6), nn.Linear(7, 6)
optimizer = torch.optim.SGD([*images.parameters(), *words.parameters()], lr=0.1)
pictures, texts = torch.randn(8, 4, 10), torch.randn(8, 5, 7)
order = torch.arange(8)
for step in range(3):
    v, w = images(pictures), words(texts)
"""
OF_OTHER_LENGTHS = (
    # batches of matrices, one of them as it should be
    """
    v, w = F.normalize(v), F.normalize(w, dim=-1)  # HERE
    scores = torch.bmm(v, w.transpose(1, 2)).amax(2).mean(1)
    loss = F.relu(1 - scores).mean()
""",
    # by hand, over the whole batch, in a function
    """
    def unit(x):
        return x / (x ** 2).sum().sqrt().clamp_min(1e-6)  # HERE
    v, w = unit(v.mean(1)), unit(w.mean(1))
    loss = F.cross_entropy(torch.mm(v, w.T) / 0.1, order)
""",
    # with a learned temperature before the product
    """
    rate = nn.Parameter(torch.tensor(2.0)).exp()
    v, w = v.mean(1), w.mean(1)
    v, w = v / torch.linalg.vector_norm(v), w / torch.linalg.vector_norm(w)  # HERE
    loss = F.cross_entropy(rate * v @ w.T, order)
""",
    # over the batch, before a sum of products
    """
    v, w = v.mean(1), w.mean(1)
    v = v / v.norm(dim=0, keepdim=True)  # HERE
    w = w / w.norm(dim=-1, keepdim=True)
    loss = (1 - (v * w).sum(-1)).mean()
""",
    # over the views of a sample, which are put one behind the other then
    """
    z = F.normalize(torch.stack([v.mean(1), w.mean(1)], dim=1))  # HERE
    z = torch.cat(z.unbind(1), dim=0)
    hidden = torch.eye(16, dtype=torch.bool)
    similar = (z @ z.T / 0.1).masked_fill(hidden, float("-inf"))
    loss = F.cross_entropy(similar, (torch.arange(16) + 8) % 16)
""",
    # all samples with each other
    """
    z = torch.cat([v.mean(1), w.mean(1)])
    z = z / torch.linalg.norm(z)  # HERE
    hidden = torch.eye(16, dtype=torch.bool)
    similar = torch.einsum("id,jd->ij", z, z).div(0.1).masked_fill(hidden, float("-inf"))
    loss = F.cross_entropy(similar, (torch.arange(16) + 8) % 16)
""",
    # over the batch, before distances
    """
    z = torch.cat([v.mean(1), w.mean(1)])
    z = F.normalize(z, dim=0)  # HERE
    far = torch.cdist(z, z)
    loss = F.relu(far[:8, 8:].diag() - far[:8, :8].max(1).values + 0.2).mean()
""",
    """
    v, w = F.normalize(v.mean(1), dim=0), F.normalize(w.mean(1), dim=0)  # HERE
    loss = F.triplet_margin_loss(v, w, w.roll(1, 0), margin=0.2)
""",
)


OF_OTHERS = (
    """
    v, w = v.mean(1), w.mean(1)
    rate = torch.einsum("nd,nd->n", v, v).clamp_min(1e-8).rsqrt().unsqueeze(1)
    v, w = v * rate, w * rate  # HERE
    loss = F.cross_entropy(torch.einsum("id,jd->ij", v, w) / 0.1, order)
""",
    """
    v, w = v.mean(1), w.mean(1)
    a = v / v.norm(dim=1, keepdim=True)
    b = w / v.detach().norm(dim=1, keepdim=True)  # HERE
    loss = F.relu(1 - (a * b).sum(1)).mean()
""",
    """
    v, w = v.mean(1), w.mean(1)
    lengths = w.pow(2).sum(-1, keepdim=True).pow(0.5)
    a, b = v.div(lengths), w.div(lengths)  # HERE
    loss = F.cross_entropy(a @ b.mT / 0.1, order)
""",
)


@pytest.mark.parametrize("loss", [*OF_OTHER_LENGTHS, *OF_OTHERS])
def test_vectors_of_other_lengths_before_cosines_are_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + VECTORS + loss + TRAIN, "no_unit_vectors", tmp_path)


AS_MEANT = (
    # along the axis of the product
    """
    v, w = F.normalize(v, dim=-1), w / w.norm(dim=2, keepdim=True)
    loss = -torch.bmm(v, w.transpose(1, 2)).amax(2).mean()
""",
    # channels of pictures
    """
    v, w = F.normalize(v.transpose(1, 2)), F.normalize(w.transpose(1, 2))
    loss = -torch.einsum("bdp,bdt->bpt", v, w).amax(2).mean()
""",
    # products over the tokens
    """
    v, w = F.normalize(v), F.normalize(w)
    loss = -(v.transpose(1, 2) @ v).square().mean() - (w.transpose(1, 2) @ w).square().mean()
""",
    # one length for all that is seen of a sample
    """
    v = v / v.flatten(1).norm(dim=1)[:, None, None]
    w = w / w.square().sum((1, 2), keepdim=True).sqrt()
    loss = -torch.bmm(v, w.transpose(1, 2)).amax(2).mean()
""",
    # kernels of a whole batch, which are compared as a whole
    """
    a, b = v.mean(1), w.mean(1)
    a, b = a / a.norm(), b / b.norm()
    loss = -(a @ a.t() * (b @ b.t())).sum()
""",
    # attention whose tokens share one sum
    """
    v, w = F.normalize(v, p=1, dim=1), F.normalize(w, p=1, dim=1)
    loss = -(v @ w.transpose(1, 2)).softmax(-1)[..., 0].mean()
""",
    # correlations of features over the batch
    """
    a, b = v.mean(1), w.mean(1)
    a, b = a / a.norm(dim=0), b / b.norm(dim=0)
    loss = (a.t() @ b - torch.eye(6)).square().sum()
""",
    # by inverse lengths of their own
    """
    a, b = v.mean(1), w.mean(1)
    a = a * torch.einsum("nd,nd->n", a, a).rsqrt()[:, None]
    b = b * b.square().sum(1, keepdim=True).pow(-0.5)
    loss = F.cross_entropy(a @ b.T / 0.1, order)
""",
    # shares of one vector along another
    """
    a, b = v.mean(1), w.mean(1)
    loss = -((a * b).sum(1) / b.norm(dim=1)).mean()
""",
    # only one of the two is scaled
    """
    loss = F.softplus(-(F.normalize(v) @ w.transpose(1, 2))).mean()
""",
)


@pytest.mark.parametrize("loss", AS_MEANT)
def test_lengths_over_the_axis_of_the_product_or_of_more_on_purpose_are_right(loss: str, tmp_path: Path) -> None:
    found = {finding.cause for finding in alarms(HEAD + VECTORS + loss + TRAIN, tmp_path)}
    assert "no_unit_vectors" not in found
