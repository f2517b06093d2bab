"""What each of several losses gives to the gradient of every leaf, as data.

Kept are inner products: the norm of a loss's gradient, its share in the whole, and the cosine between two losses follow
from them, for one parameter as well as for all of a module together.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, nan, sqrt

from msgspec import Struct


class LossTerm(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A root of backward, or one of the terms whose sum is the only root."""

    name: str
    nodes: tuple[int, ...]
    """The nodes that gave it: several where a loop made terms that are told as one."""
    call_site: int | None = None
    """Index in `Graph.call_sites`."""


class LeafProducts(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """Of one leaf the inner products of the gradients that the losses bring to it, each with each."""

    leaf: int
    """Id of the node."""
    products: tuple[float | None, ...]
    """Row by row: as many rows and columns as there are losses. Half of the matrix is the mirror of the other. None
    where a gradient holds NaN or Inf."""


class Products:
    """Inner products of the gradients of several losses, at one leaf or summed over several."""

    def __init__(self, count: int, products: Iterable[float]) -> None:
        """`products` row by row; NaN for what is not known."""
        flat = list(products)
        self._rows = [flat[first : first + count] for first in range(0, count * count, count)]

    def norm(self, loss: int) -> float | None:
        """L2 norm of what the loss brings; None where it holds NaN or Inf."""
        square = self._rows[loss][loss]
        return sqrt(max(square, 0.0)) if isfinite(square) else None

    def share(self, loss: int) -> float | None:
        """What the loss gives to the whole gradient: its inner product with that, over the square of its norm.

        All shares make 1. One whose gradient points against the whole is negative. None where the whole is zero.
        """
        whole = sum(map(sum, self._rows))
        return sum(self._rows[loss]) / whole if isfinite(whole) and whole > 0 else None

    def cosine(self, one: int, other: int) -> float | None:
        """Of the angle between the gradients of two losses; None where one of them is zero or not finite."""
        lengths = (self.norm(one) or 0.0) * (self.norm(other) or 0.0)
        product = self._rows[one][other]
        return max(-1.0, min(1.0, product / lengths)) if lengths and isfinite(product) else None


class RootShares(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What was measured, with a backward for each loss."""

    losses: tuple[LossTerm, ...]
    leaves: tuple[LeafProducts, ...] = ()
    """Those that a gradient reached and that could be measured."""

    def at(self, leaves: Iterable[int]) -> Products | None:
        """What arrived at these leaves together; None where nothing was measured at any."""
        wanted = frozenset(leaves)
        return self.together(entry for entry in self.leaves if entry.leaf in wanted)

    def together(self, entries: Iterable[LeafProducts] | None = None) -> Products | None:
        """What arrived at several leaves, or at all, as if they were one."""
        found = [
            [nan if product is None else product for product in entry.products]
            for entry in (self.leaves if entries is None else entries)
        ]
        return Products(len(self.losses), map(sum, zip(*found, strict=True))) if found else None
