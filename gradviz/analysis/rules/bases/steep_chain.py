"""What the rules on vanishing and exploding gradients share: many operations change it in the same direction."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from math import log10
from typing import ClassVar, Literal

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.clipping import is_clipping
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.flow.gradient_flow import STEEP, FlowRow
from gradviz.analysis.gradients.gradient_changes import changes_of_gradients
from gradviz.analysis.numbers.growth import (
    Descent,
    Growth,
    Growths,
    chain_above_layers,
    descent_along,
    descent_on_one_path,
)
from gradviz.analysis.parameters.computed_alike import COPIES
from gradviz.analysis.parameters.creation_lines import first_writes, is_set_by_hand, line_of_module
from gradviz.analysis.rule import Rule
from gradviz.graph.model import Graph

_MIN_PART = 0.3
"""The part of the total change, in powers of ten, that must show between the first and the last node of the culprit."""
_MIN_NODES = 3
"""A single node that makes a gradient large, such as the square of a loss, is no chain."""

_WHY_PRODUCT = "the gradient of each factor is the product of all the others, and there are many"
_FIX_PRODUCT = "add logarithms instead of multiplying (logsigmoid, log_softmax, logsumexp), or multiply fewer at a time"
_NORMALIZE = frozenset({
    "NativeLayerNormBackward0", "NativeGroupNormBackward0", "NativeBatchNormBackward0", "FusedRmsNormBackward0",
})  # fmt: skip
_BY_WEIGHTS = frozenset({"ConvolutionBackward0", "AddmmBackward0", "MmBackward0"}) | _NORMALIZE
_WHY_SPREAD = (
    "the derivative of a normalization is one over the spread of what it gets, and that is nearly 0 where all its "
    "values are the same"
)
_FIX_SPREAD = (
    "give the normalization a larger eps, and keep rows whose values are all the same, such as padding, out: multiply "
    "what each layer returns by the mask"
)


_USUAL_EPS = 1e-2
"""Normalizations have 1e-3 at most, unless the program says otherwise."""
_WHY_EPS = (
    "the normalization between divides by the root of the variance plus eps, and eps is {eps:g}: it does not scale up "
    "what is small"
)
_FIX_EPS = (
    "nothing, if this trains well, as it often does with Adam; else leave eps out: BatchNorm2d(c, 0.8) sets eps, not "
    "the momentum"
)


class SteepChain(Rule):
    """Reports the first backward whose gradient changes by a factor of `STEEP` from one end of the model to the
    other."""

    severity = "warning"
    comes_later = True
    symptom: ClassVar[Literal["vanishing", "exploding"]]
    why: ClassVar[str]
    fix: ClassVar[str]

    def check(self, case: Case) -> Iterator[Finding]:
        for number in case.measured_graphs:
            steep = next(self._steep(case.graphs[number], case.growths_of(number)), None)
            if steep is None or not _trains_something(case, number) or _is_of_derivatives(case, number):
                continue
            is_last = number == case.measured_graphs[-1]
            if not _starts_closed(case, number, _NORMALIZE if is_last else _BY_WEIGHTS, steep[1]):
                yield self._finding(case, number, *steep)
                return

    def _steep(self, graph: Graph, growths: Growths) -> Iterator[tuple[Descent, Growth]]:
        """Every change that is too large, between layers or from the loss, with the operation that causes it.

        In a loop without weights it is measured between rounds, and only for exploding gradients: a running average or
        a discounted sum forgets on purpose.
        """
        ordered, wholes = growths.ordered, [growths.between_layers, growths.from_loss]
        if self.symptom == "exploding":
            ordered = tuple(growth for growth in ordered if len(growth.nodes) >= _MIN_NODES)
            if wholes[0] is None and ordered:
                wholes.append(descent_along(graph, ordered[-1]))
        for whole in wholes:
            if whole is None or not self._is_steep(whole):
                continue
            if whole is wholes[0]:
                yield from self._steep_on_one_path(graph, ordered)
            elif (culprit := self._culprit(graph, ordered, whole)) is not None:
                yield whole, culprit

    @abstractmethod
    def verdict(self, culprit: Growth, whole: Descent) -> str:
        """The message: what one node of the culprit does, and what all of them do to the gradient."""

    def _is_steep(self, whole: Descent) -> bool:
        limit = STEEP**2 if whole.is_from_loss else STEEP
        return whole.factor < 1 / limit if self.symptom == "vanishing" else whole.factor > limit

    def _steep_on_one_path(self, graph: Graph, ordered: Sequence[Growth]) -> Iterator[tuple[Descent, Growth]]:
        """The change between layers that follow each other, and what causes it: of two terms of a loss, each with
        layers of its own, the one may have a hundred times the weight of the other."""
        for steepest in self._steepest_first(ordered)[:1]:
            between = descent_on_one_path(graph, steepest)
            if between is not None and self._is_steep(between) and self._culprit(graph, [steepest], between):
                yield between, steepest

    def _steepest_first(self, ordered: Sequence[Growth]) -> list[Growth]:
        sign = -1 if self.symptom == "vanishing" else 1
        return [each for each in ordered[::-sign] if sign * each.decades > 0]

    def _culprit(self, graph: Graph, ordered: Sequence[Growth], whole: Descent) -> Growth | None:
        """The operation that causes most of it, if its nodes follow each other.

        Small factors in parallel branches, as in new residual branches, are no chain.
        """
        sign = -1 if self.symptom == "vanishing" else 1
        steepest_first = self._steepest_first(ordered)
        if whole.is_from_loss:  # parallel nodes are skipped
            return next(filter(None, (chain_above_layers(graph, each, STEEP) for each in steepest_first)), None)
        least = _MIN_PART * abs(log10(whole.factor))
        return next((each for each in steepest_first[:1] if min(sign * each.trend, sign * each.decades) >= least), None)

    def _finding(self, case: Case, number: int, whole: Descent, culprit: Growth) -> Finding:
        beyond = _beyond_a_bound(case)
        rows = [row for row in self._most_affected_first(case.flow_of(number).rows) if row.name not in beyond]
        steepest = [row.name for row in rows[: max(1, len(rows) // 3)]]
        own_line = case.location_of(number, culprit.nodes[0])
        why, fix = (_WHY_PRODUCT, _FIX_PRODUCT) if whole.is_from_loss else (self.why, self.fix)
        if culprit.operation in _NORMALIZE and self.symptom == "exploding":
            why, fix = _WHY_SPREAD, _FIX_SPREAD
        is_by_weights = self.symptom == "vanishing" and culprit.operation in _BY_WEIGHTS
        eps = _large_eps(case, number) if is_by_weights else None
        if eps is not None:
            why, fix = _WHY_EPS.format(eps=eps), _FIX_EPS
        is_as_made = eps is not None or _is_recurrence_as_made(case, number, culprit)
        is_bounded = self.symptom == "exploding" and _is_clipped(case, number)
        location = _line_to_change(case, number, culprit) or own_line
        return self.finding(
            self.verdict(culprit, whole),
            severity="note" if is_as_made or is_bounded else self.severity,
            symptom=self.symptom,
            why=why,
            fix=fix,
            location=location,
            symptom_location=own_line if own_line != location else None,
            op=culprit.operation,
            tensors=tuple(dict.fromkeys((*steepest, *_used_again(case, number, culprit)))),
            nodes=case.nodes_in(number, culprit.nodes),
            evidence={
                "norm_near_loss": whole.near_loss,
                "norm_near_input": whole.near_input,
                "factor_of_each": culprit.factor,
                "nodes": len(culprit.nodes),
            },
        )

    def _most_affected_first(self, rows: Sequence[FlowRow]) -> list[FlowRow]:
        """The parameters that it affects most: the smallest gradients (zeros first), or the last that an exploding
        gradient reached.

        Not the largest gradient: a weight's gradient also has its input as a factor, which may be small or large.
        """
        if self.symptom == "vanishing":
            return sorted((row for row in rows if row.size or row.is_zero), key=lambda row: row.size or 0.0)
        return sorted((row for row in rows if row.size), key=lambda row: -(row.order or 0))


def _beyond_a_bound(case: Case) -> frozenset[str]:
    """The leaves that get exactly zero from a clamp alone: its slope is 0 or 1, and no link of a chain."""
    calls = case.dataflow.log.calls
    bounded = [
        zero
        for zero in case.zero_gradients
        if zero.call is not None and plain_name(calls[zero.call].function) in _BOUNDS
    ]
    return frozenset(name for zero in bounded for name in zero.leaves)


_BOUNDS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6", "hardsigmoid"})


def _trains_something(case: Case, number: int) -> bool:
    """Whether a graph has a gradient for what a step changes, if there are steps: derivatives by an input alone are
    values of the program, which may be small or large."""
    histories = case.histories
    trained = {name for tensor in histories.trained for name in histories.tensor(tensor).names}
    return (
        not histories.steps
        or not trained
        or any(row.name in trained and row.nothing is None for row in case.flow_of(number).rows)
    )


def _is_of_derivatives(case: Case, number: int) -> bool:
    """Whether ``grad()`` takes a derivative of derivatives that nobody trains by: the product of a vector with second
    derivatives, of which a solver takes a direction, is small where the loss bends little."""
    flow, row = case.dataflow, case.backward_calls.row_of(number)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or call.function.endswith(".backward"):
        return False
    is_given = any(use.tensor in case.histories.leaves_of_gradients for use in call.outputs)
    reached = case.backward_calls.reached(row).members
    return not is_given and any(is_gradient(flow.log.calls[each]) for each in reached)


def _starts_closed(case: Case, number: int, layers: Container[str], culprit: Growth) -> bool:
    """Whether the program gave one of these layers a weight of zeros, so that a branch opens with the first steps: a
    normalization (Goyal et al. 2017, section 5.1), or the last layer of a network that begins as the identity
    (Jaderberg et al. 2015, section 3.2)."""
    flow = case.dataflow
    rows = (flow.call_of_node(case.graphs[number].nodes[node]) for node in culprit.nodes)
    for row in rows if culprit.operation in layers else ():
        leaves = [] if row is None else [use.tensor for use in flow.log.calls[row].inputs if use.is_live_leaf]
        writes = first_writes(flow, leaves[0], row) if leaves and row is not None else ()  # The weight, then the bias.
        names = [plain_name(flow.log.calls[each].function) for each in writes]
        if next((name for name in reversed(names) if name not in COPIES), "") in _ZEROS:
            return True
    return False


_ZEROS = frozenset({"zeros", "zero"})


def _is_recurrence_as_made(case: Case, number: int, culprit: Growth) -> bool:
    """Whether torch's own recurrent modules cause it, with the weights that torch initialised.

    All of them forget old inputs; their weights, which every step uses, learn from the last steps.
    """
    flow, graph = case.dataflow, case.graphs[number]
    scopes = [graph.nodes[node].scope for node in culprit.nodes]
    if any(scope is None or graph.scopes[scope].class_name not in _RECURRENT for scope in scopes):
        return False
    rows = [row for node in culprit.nodes if (row := flow.call_of_node(graph.nodes[node])) is not None]
    first = {use.tensor: row for row in reversed(rows) for use in flow.log.calls[row].inputs if use.is_live_leaf}
    return not any(is_set_by_hand(flow, first_writes(flow, weight, row)) for weight, row in first.items())


def _large_eps(case: Case, number: int) -> float | None:
    """The eps of a normalization of a graph, where the program gave it one that is not small."""
    flow, found = case.dataflow, list[float]()
    for node in case.graphs[number].nodes:
        row = flow.call_of_node(node) if node.name in _NORMALIZE else None
        given = None if row is None else flow.log.calls[row].scalars
        eps = None if given is None else given.get("eps", given.get("7", given.get("4")))
        if isinstance(eps, float) and eps > _USUAL_EPS:
            found.append(eps)
    return max(found, default=None)


def _is_clipped(case: Case, number: int) -> bool:
    """Whether the gradients of a graph are clipped before the next step: whoever does so knows how large they get."""
    flow, row = case.dataflow, case.backward_calls.row_of(number)
    steps = case.histories.steps
    index = 0 if row is None else bisect_left(steps, row)
    if row is None or index == len(steps):
        return False
    between = {call for call, _ in changes_of_gradients(flow) if row < call < steps[index]}
    return any(is_clipping(flow, call) for call in between)


_RECURRENT = frozenset({"RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"})


def _used_again(case: Case, number: int, culprit: Growth) -> Iterator[str]:
    """The weights that several nodes of the culprit share, as the steps of a recurrence do."""
    nodes = case.graphs[number].nodes
    uses = Counter(edge.target for node in culprit.nodes for edge in nodes[node].edges if edge is not None)
    return (name for leaf, count in uses.items() if count > 1 and nodes[leaf].is_leaf for name in nodes[leaf].names[:1])


def _line_to_change(case: Case, number: int, culprit: Growth) -> Location | None:
    """Where most weights of the culprit got their values, or else where their modules were made."""
    flow = case.dataflow
    nodes = case.graphs[number].nodes
    rows = [flow.call_of_node(nodes[node]) for node in culprit.nodes]
    weights: dict[int, tuple[bool, int | None]] = {}
    sites = Counter(site for row in rows if row is not None and (site := _site_behind(flow, row, weights)) is not None)
    return case.location_of_site(sites.most_common(1)[0][0]) if sites else None


def _site_behind(flow: Dataflow, row: int, weights: dict[int, tuple[bool, int | None]]) -> int | None:
    """Of several weights the first that was set by hand. `weights` caches what is known: every step uses a recurrent
    weight."""
    call = flow.log.calls[row]
    own = [use for use in call.inputs if use.is_live_leaf and len(flow.log.tensors[use.tensor].facts.shape) > 1]
    for use in own:
        if use.tensor not in weights:
            writes = first_writes(flow, use.tensor, row)
            site = flow.log.calls[writes[-1]].call_site if writes else None
            weights[use.tensor] = not is_set_by_hand(flow, writes), site
    if not own:
        return line_of_module(flow, call)
    return min((weights[use.tensor] for use in own), key=lambda each: each[0])[1]
