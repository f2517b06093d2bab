"""The gradient flow as data for programs: ``gradviz flow --json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gradviz.analysis.flow.gradient_flow import FlowRow, Trend, gradient_flow
from gradviz.analysis.flow.loss_shares import products_of_rows
from gradviz.capture.capture import Capture, Program
from gradviz.capture.encoding import json_text
from gradviz.graph.exchanges import Exchange
from gradviz.graph.model import BackwardCall, CallSite, Graph
from gradviz.graph.root_shares import LossTerm, Products, RootShares

SCHEMA_VERSION = 1
"""Increased when a reader of the older form would misread the newer one.

1   first form
"""


class LossShare(Struct, frozen=True):
    """The part of one loss in a gradient."""

    loss: str
    norm: float | None
    """L2 norm of its part; null if it is not finite."""
    share: float | None
    """Inner product with the whole over the squared norm of the whole; all shares add up to 1. Null if the whole is
    zero."""


class LossCosine(Struct, frozen=True):
    """The cosine of the angle between the gradients of two losses; null if one of them has none."""

    losses: tuple[str, str]
    cosine: float | None


class ParameterFlow(Struct, frozen=True):
    """One parameter; the fields are those of `gradviz.analysis.flow.gradient_flow.FlowRow`."""

    name: str
    shape: tuple[int | str, ...] | None
    count: int
    """Elements for which a gradient arrived; 0 if none did, and `nothing` says why."""
    norm: float | None
    weight_norm: float | None
    ratio: float | None
    """`norm` over `weight_norm`."""
    size: float | None
    """Root mean square of the gradient's elements."""
    zeros: int
    nans: int
    infs: int
    order: int | None
    outcome: str | None
    nothing: str | None
    lost_at: int | None
    """Id of the node that made all of it zero."""
    node: int | None
    """Id of the leaf."""
    reduced_norm: float | None
    """Norm of ``.grad``, if `reduced_by` made it out of the gradients of several ranks."""
    reduced_by: str | None
    losses: tuple[LossShare, ...]
    """With ``--root-shares``; else empty."""
    cosines: tuple[LossCosine, ...]


class Flow(Struct, frozen=True):
    """One backward call."""

    backward: BackwardCall | None
    call_site: CallSite | None
    """Where it was called."""
    parameters: tuple[ParameterFlow, ...]
    """Every parameter, in the order of the model, and then other leaves."""
    trend: Trend | None
    first_nan: int | None
    """Id of the first node at which a finite gradient became NaN or Inf."""
    losses: tuple[LossTerm, ...]
    """With ``--root-shares``: roots, or the terms of the only root."""
    total: tuple[LossShare, ...]
    """Their shares in the gradients of all parameters together."""
    cosines: tuple[LossCosine, ...]
    exchanges: tuple[Exchange, ...]
    """What the ranks of a job exchanged for its parameters."""


class FlowDocument(Struct, frozen=True, kw_only=True):
    """What ``gradviz flow --json`` prints."""

    schema: Literal["gradviz flow"] = "gradviz flow"
    version: int = SCHEMA_VERSION
    program: Program
    disclosures: tuple[str, ...]
    """What could not be recorded, in plain sentences."""
    flows: tuple[Flow, ...]


def flow_json(capture: Capture, graphs: Sequence[Graph]) -> str:
    """The document of these graphs as text."""
    document = FlowDocument(
        program=capture.program,
        disclosures=capture.disclosures,
        flows=tuple(_flow(capture, graph) for graph in graphs),
    )
    return json_text(document)


def flow_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return msgspec.json.schema(FlowDocument)


def _flow(capture: Capture, graph: Graph) -> Flow:
    flow, shares = gradient_flow(capture, graph), graph.root_shares
    products = products_of_rows(shares, flow.rows) if shares is not None else [None] * len(flow.rows)
    together = shares.together() if shares is not None else None
    site = graph.backward.call_site if graph.backward is not None else None
    return Flow(
        backward=graph.backward,
        call_site=None if site is None else graph.call_sites[site],
        parameters=tuple(_parameter(row, shares, own) for row, own in zip(flow.rows, products, strict=True)),
        trend=flow.trend,
        first_nan=flow.first_nan,
        losses=shares.losses if shares is not None else (),
        total=_shares(shares, together),
        cosines=_cosines(shares, together),
        exchanges=graph.exchanges,
    )


def _parameter(row: FlowRow, shares: RootShares | None, products: Products | None) -> ParameterFlow:
    return ParameterFlow(
        name=row.name,
        shape=row.shape,
        count=row.count,
        norm=row.norm,
        weight_norm=row.weight_norm,
        ratio=row.ratio,
        size=row.size,
        zeros=row.zeros,
        nans=row.nans,
        infs=row.infs,
        order=row.order,
        outcome=row.outcome,
        nothing=row.nothing,
        lost_at=row.lost_at,
        node=next(iter(row.leaves), None),
        reduced_norm=row.reduced_norm,
        reduced_by=row.reduced_by or None,
        losses=_shares(shares, products),
        cosines=_cosines(shares, products),
    )


def _shares(shares: RootShares | None, products: Products | None) -> tuple[LossShare, ...]:
    if shares is None or products is None:
        return ()
    return tuple(
        LossShare(loss.name, products.norm(number), products.share(number)) for number, loss in enumerate(shares.losses)
    )


def _cosines(shares: RootShares | None, products: Products | None) -> tuple[LossCosine, ...]:
    if shares is None or products is None:
        return ()
    names = [loss.name for loss in shares.losses]
    return tuple(
        LossCosine((names[one], names[other]), products.cosine(one, other))
        for one in range(len(names))
        for other in range(one + 1, len(names))
    )
