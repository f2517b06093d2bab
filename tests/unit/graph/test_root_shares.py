"""Norms, shares and cosines of several losses follow from inner products."""

from __future__ import annotations

from math import nan, sqrt

import pytest

from gradviz.graph.root_shares import LeafProducts, LossTerm, Products, RootShares

# Gradients (3, 0) and (-1, 1): their sum is (2, 1).
TWO = Products(2, (9.0, -3.0, -3.0, 2.0))


def test_norm_share_and_cosine_are_those_of_the_vectors() -> None:
    assert [TWO.norm(0), TWO.norm(1)] == pytest.approx([3, sqrt(2)])
    assert [TWO.share(0), TWO.share(1)] == pytest.approx([6 / 5, -1 / 5])
    assert TWO.cosine(0, 1) == pytest.approx(-1 / sqrt(2))


def test_losses_that_cancel_out_have_no_share_but_a_direction() -> None:
    opposite = Products(2, (4.0, -4.0, -4.0, 4.0))
    assert (opposite.share(0), opposite.cosine(0, 1)) == (None, -1)


def test_unknown_products_give_no_figures() -> None:
    broken = Products(2, (nan, nan, nan, 2.0))
    assert broken.norm(0) is broken.share(1) is broken.cosine(0, 1) is None
    assert broken.norm(1) == pytest.approx(sqrt(2))


def test_several_leaves_count_as_one_long_gradient() -> None:
    losses = (LossTerm("ce", (4,)), LossTerm("kl", (5,)))
    shares = RootShares(losses, (LeafProducts(0, (9.0, 0.0, 0.0, 1.0)), LeafProducts(1, (16.0, 0.0, 0.0, 0.0))))
    together, first = shares.together(), shares.at([0])
    assert together is not None and first is not None
    assert (together.norm(0), first.norm(0)) == (5, 3)
    assert shares.at([7]) is None
