"""The gradient of each parameter, in the order of the model, and where it was lost.

Rows of parameters can be folded into rows of modules (`folded`); such a row has the figures of all elements together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import hypot, sqrt
from typing import Any

from gradviz.analysis.flow.lost_gradients import LostGradients
from gradviz.analysis.numbers.gradient_origins import BROKEN, OriginKind, find_gradient_origins
from gradviz.analysis.numbers.growth import typical
from gradviz.capture.capture import Capture, Parameter
from gradviz.graph.gradients import is_whole
from gradviz.graph.model import Graph, Node, TensorFacts

STEEP = 1e3
"""A gradient that changes by this factor from one end of the model to the other vanishes or explodes."""


@dataclass(frozen=True)
class FlowRow:
    """One parameter, or all parameters of a module."""

    name: str
    shape: tuple[int | str, ...] | None = None
    """None for a module."""
    parameters: int = 1
    count: int = 0
    """Elements for which a gradient arrived."""
    norm: float | None = None
    """L2 norm of the gradient; None if nothing arrived, or nothing could be measured."""
    weight_norm: float | None = None
    zeros: int = 0
    nans: int = 0
    infs: int = 0
    order: int | None = None
    """When it arrived, in the order in which the engine ran the nodes."""
    outcome: str | None = None
    """``fresh``, ``accumulated`` (added to an older ``.grad``), ``taken`` away by a hook; None for `autograd.grad`."""
    nothing: str | None = None
    """Why no gradient arrived, if known."""
    lost_at: int | None = None
    """The node that made the gradient zero, if all of it is zero."""
    reduced_norm: float | None = None
    """L2 norm of ``.grad``, if a wrapper made it out of the gradients of several ranks; `norm` is then of this rank's
    own gradient. Of a sharded parameter, the norm of the shard on this rank."""
    reduced_by: str = ""
    """That wrapper."""
    leaves: tuple[int, ...] = ()
    """Ids of the nodes at which it arrived."""
    is_part: bool = False
    """Whether the figures are those of the part on this rank, of a tensor that is shared out over several."""

    @property
    def ratio(self) -> float | None:
        """Norm of the gradient over norm of the weights."""
        return self.norm / self.weight_norm if self.norm is not None and self.weight_norm else None

    @property
    def is_zero(self) -> bool:
        """True if a gradient arrived in which every element is zero."""
        return self.count > 0 and self.zeros == self.count and not self.is_part

    @property
    def size(self) -> float | None:
        """Root mean square of the gradient's elements: unlike the norm, it does not grow with the parameter."""
        return self.norm / sqrt(self.count) if self.norm is not None and self.count else None


@dataclass(frozen=True)
class Trend:
    """How the gradient changes between the loss and the input."""

    near_loss: float
    """Typical size (root mean square) in the third of the profile that it reached first."""
    near_input: float
    """The same for the third that it reached last."""
    verdict: str
    """``steady``, ``vanishing`` or ``exploding``."""

    @property
    def factor(self) -> float:
        """The ratio of the gradient near the input to that near the loss."""
        return self.near_input / self.near_loss


@dataclass(frozen=True)
class GradientFlow:
    """The figures of one backward call."""

    rows: tuple[FlowRow, ...]
    """Every parameter, in the order of the model, and then other leaves."""
    profile: tuple[float, ...]
    """Root mean square of the gradients of the weights (tensors of two or more dimensions, or of all parameters if
    there are few weights), from the input to the loss, without zeros."""
    trend: Trend | None
    """None if the profile has fewer than three values."""
    first_nan: int | None = None
    """The first node at which a finite gradient became NaN or Inf."""
    first_nan_by: OriginKind | None = None
    """What made them there: the node itself, the sum of what arrived at it, or a hook."""
    closed_regions: int = 0
    """Compiled functions that are single nodes and have several parameters: the depth of these is not known, so there
    is no trend."""


def has_gradients(graph: Graph) -> bool:
    """Whether gradients were recorded with the graph."""
    return any(node.run is not None for node in graph.nodes)


def gradient_flow(capture: Capture, graph: Graph) -> GradientFlow:
    """The flow of one graph of the capture."""
    leaves = {name: node for node in graph.nodes if node.is_leaf for name in node.names}
    arrivals, lost = _arrivals(graph), LostGradients(capture, graph)
    rows, shown = [], set()
    for parameter in capture.parameters:
        if parameter.part_of in leaves:
            continue  # the flat parameter that it is a part of has a row of its own
        leaf = next((leaves[name] for name in parameter.names if name in leaves), None)
        rows.append(_row_of(parameter, leaf, lost, arrivals))
        if leaf is not None:
            shown.add(leaf.id)
    for node in graph.nodes:
        if node.is_leaf and node.id not in shown:
            tensor = node.outputs[0] if node.outputs else None
            name = node.names[0] if node.names else f"{node.kind} {node.id}"
            known = Parameter((name,), tensor or TensorFacts((), "?"))
            rows.append(_row_of(known, node, lost, arrivals))
    flow, closed = flow_of_rows(rows), _closed_regions(graph)
    return replace(flow, closed_regions=closed, trend=None if closed else flow.trend, **_first_nan(graph))


def _closed_regions(graph: Graph) -> int:
    """Compiled functions with several parameters, which got their gradients in the order of its arguments."""
    return sum(
        sum(edge is not None and graph.nodes[edge.target].is_leaf for edge in node.edges) > 1
        for node in graph.nodes
        if node.kind == "compiled"
    )


def flow_of_rows(rows: Sequence[FlowRow]) -> GradientFlow:
    """The flow with these rows, with its profile and trend."""
    profile = _profile(rows)
    return GradientFlow(tuple(rows), profile, _trend(profile))


def _arrivals(graph: Graph) -> dict[int, int]:
    """For each leaf, the position in the engine's order at which its gradient was complete.

    `autograd.grad` runs no node for a leaf: then it is the position of the last node that sent it a gradient.
    """
    arrivals: dict[int, int] = {}
    for node in graph.nodes:
        if node.run is None:
            continue
        for edge in node.edges:
            if edge is not None and graph.nodes[edge.target].is_leaf:
                arrivals[edge.target] = max(node.run.order, arrivals.get(edge.target, 0))
    return arrivals | {node.id: node.run.order for node in graph.nodes if node.is_leaf and node.run is not None}


def _row_of(parameter: Parameter, leaf: Node | None, lost: LostGradients, arrivals: Mapping[int, int]) -> FlowRow:
    row = FlowRow(parameter.names[0], parameter.tensor.shape)
    arrived = leaf.arrived[0] if leaf is not None and leaf.arrived else None
    if leaf is None or arrived is None or arrived.is_undefined:
        return replace(row, nothing=lost.why_nothing_arrived(parameter, leaf))
    if arrived.unmeasured is not None:
        return replace(row, nothing=f"not measured: {arrived.unmeasured}")
    left = leaf.leaf_gradient
    if left is not None and left.reduced_by:
        row = replace(row, reduced_by=left.reduced_by, reduced_norm=None if left.after is None else left.after.norm)
    return replace(
        row,
        count=arrived.count,
        norm=arrived.norm,
        weight_norm=leaf.values[0].norm if leaf.values and leaf.values[0] is not None else None,
        zeros=arrived.zeros,
        nans=arrived.nans,
        infs=arrived.infs,
        order=arrivals.get(leaf.id),
        outcome=leaf.leaf_gradient.outcome if leaf.leaf_gradient is not None else None,
        lost_at=lost.where_it_became_zero(leaf) if arrived.is_zero else None,
        leaves=(leaf.id,),
        is_part=not all(map(is_whole, arrived.placements)),
    )


def folded(rows: Sequence[FlowRow], depth: int) -> list[FlowRow]:
    """Rows of modules `depth` levels below the outermost one, and of parameters above that.

    If a module has only one parameter, the row is that of the parameter.
    """
    result = []
    for module, inside in groupby(rows, lambda row: module_at(row.name, depth)):
        together = list(inside)
        result.extend([_together(module, together)] if module and len(together) > 1 else together)
    return result


def module_at(name: str, depth: int) -> str:
    """The module into which a parameter is folded; empty for one that is not deeper than `depth`."""
    path = name.split(".")[:-1]
    return ".".join(path[: depth + 1]) if len(path) > depth else ""


def _together(module: str, rows: Sequence[FlowRow]) -> FlowRow:
    arrived = [row for row in rows if row.nothing is None]
    norms = [row.norm for row in arrived if row.norm is not None]
    reduced = [row.reduced_norm for row in arrived if row.reduced_norm is not None]
    weights = [row.weight_norm for row in arrived if row.weight_norm is not None]
    silent = len(rows) - len(arrived)
    return FlowRow(
        module,
        None,
        len(rows),
        sum(row.count for row in arrived),
        hypot(*norms) if norms else None,
        hypot(*weights) if weights else None,
        sum(row.zeros for row in arrived),
        sum(row.nans for row in arrived),
        sum(row.infs for row in arrived),
        min((row.order for row in arrived if row.order is not None), default=None),
        nothing=f"{silent} of {len(rows)}" if silent else None,
        lost_at=next((row.lost_at for row in arrived if row.lost_at is not None), None),
        reduced_norm=hypot(*reduced) if reduced else None,
        reduced_by=next((row.reduced_by for row in arrived if row.reduced_by), ""),
        leaves=tuple(leaf for row in arrived for leaf in row.leaves),
    )


def deepest_that_fits(rows: Sequence[FlowRow], most: int) -> int | None:
    """The depth at which there are at most `most` rows; None if all rows fit."""
    if len(rows) <= most:
        return None
    deepest = max(row.name.count(".") for row in rows)
    return next((depth for depth in range(deepest, 0, -1) if len(folded(rows, depth)) <= most), 0)


_MIN_VALUES = 3
"""Fewer values than this make no trend."""


def _profile(rows: Iterable[FlowRow]) -> tuple[float, ...]:
    reached = sorted((-row.order, row.size, row.shape or ()) for row in rows if row.order is not None and row.size)
    weights = [size for _, size, shape in reached if len(shape) > 1]
    return tuple(weights if len(weights) >= _MIN_VALUES else [size for _, size, _ in reached])


def _trend(profile: Sequence[float]) -> Trend | None:
    if len(profile) < _MIN_VALUES:
        return None
    third = len(profile) // 3
    near_loss, near_input = typical(profile[-third:]), typical(profile[:third])
    factor = near_input / near_loss
    verdict = "vanishing" if factor < 1 / STEEP else "exploding" if factor > STEEP else "steady"
    return Trend(near_loss, near_input, verdict)


def _first_nan(graph: Graph) -> dict[str, Any]:
    by_node = find_gradient_origins(graph).by_node
    runs = (
        (graph.nodes[index].run, index) for index, gradient_origin in by_node.items() if gradient_origin.state in BROKEN
    )
    first = min(((run.order, index) for run, index in runs if run is not None), default=None)
    return {} if first is None else {"first_nan": first[1], "first_nan_by": by_node[first[1]].by}
