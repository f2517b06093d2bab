"""What each of several losses contributes to the gradient of every leaf.

Inner products are stored: from them follow the norm of a loss's gradient, its share in the sum, and the cosine between
two losses, for one parameter as well as for all parameters of a module.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, nan, sqrt

from msgspec import Struct

from gradviz.graph.bounded_types import FiniteNumber, Index


class LossTerm(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A root of backward, or one of the terms whose sum is the only root."""

    name: str
    nodes: tuple[Index, ...]
    """The nodes that computed it: several where a loop made terms that count as one."""
    call_site: Index | None = None
    """Index in `Graph.call_sites`."""


class LeafProducts(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """For one leaf, the inner products of the gradients from each pair of losses."""

    leaf: Index
    """Id of the node."""
    products: tuple[FiniteNumber | None, ...]
    """Row by row: as many rows and columns as there are losses. The matrix is symmetric. None where a gradient holds
    NaN or Inf."""


class Products:
    """Inner products of the gradients of several losses, at one leaf or summed over several."""

    def __init__(self, count: int, products: Iterable[float]) -> None:
        """`products` row by row; NaN where unknown."""
        flat = list(products)
        self._rows = [flat[first : first + count] for first in range(0, count * count, count)]

    def norm(self, loss: int) -> float | None:
        """L2 norm of the loss's gradient; None where it holds NaN or Inf."""
        square = self._rows[loss][loss]
        return sqrt(max(square, 0.0)) if isfinite(square) else None

    def share(self, loss: int) -> float | None:
        """The share of the loss in the sum of all gradients: their inner product, divided by the square of the sum's
        norm.

        All shares add up to 1. A loss whose gradient points against the sum has a negative share. None where the sum is
        zero.
        """
        whole = sum(map(sum, self._rows))
        return sum(self._rows[loss]) / whole if isfinite(whole) and whole > 0 else None

    def cosine(self, one: int, other: int) -> float | None:
        """Cosine of the angle between the gradients of two losses; None where one of them is zero or not finite."""
        lengths = (self.norm(one) or 0.0) * (self.norm(other) or 0.0)
        product = self._rows[one][other]
        return max(-1.0, min(1.0, product / lengths)) if lengths and isfinite(product) else None


class RootShares(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """The measurements, with one backward for each loss."""

    losses: tuple[LossTerm, ...]
    leaves: tuple[LeafProducts, ...] = ()
    """Leaves that a gradient reached and that could be measured."""

    def at(self, leaves: Iterable[int]) -> Products | None:
        """The gradients at these leaves together; None where nothing was measured at any."""
        wanted = frozenset(leaves)
        return self.together(entry for entry in self.leaves if entry.leaf in wanted)

    def together(self, entries: Iterable[LeafProducts] | None = None) -> Products | None:
        """The gradients at several leaves, or at all, as if they were one leaf."""
        found = [
            [nan if product is None else product for product in entry.products]
            for entry in (self.leaves if entries is None else entries)
        ]
        return Products(len(self.losses), map(sum, zip(*found, strict=True))) if found else None
