"""The part of each of several losses in the rows of the gradient flow, and which losses pull in opposite directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from gradviz.analysis.flow.gradient_flow import FlowRow
from gradviz.graph.root_shares import Products, RootShares

CONFLICT = -0.1
"""Two losses whose gradients have a cosine below this cancel a part of each other."""


@dataclass(frozen=True)
class Pair:
    """Two losses by their indices, and the cosine between their gradients."""

    one: int
    other: int
    cosine: float

    @property
    def is_conflict(self) -> bool:
        """Whether the two pull in opposite directions."""
        return self.cosine < CONFLICT


def products_of_rows(shares: RootShares, rows: Iterable[FlowRow]) -> list[Products | None]:
    """For each row the products of the gradients at its leaves; None if nothing was measured."""
    by_leaf = {entry.leaf: entry for entry in shares.leaves}
    return [shares.together(by_leaf[leaf] for leaf in row.leaves if leaf in by_leaf) for row in rows]


def pairs(shares: RootShares, products: Products) -> list[Pair]:
    """Every pair of losses that both have a gradient here; those that disagree most come first."""
    found = [
        Pair(one, other, cosine)
        for one, other in combinations(range(len(shares.losses)), 2)
        if (cosine := products.cosine(one, other)) is not None
    ]
    return sorted(found, key=lambda pair: pair.cosine)
