"""The first NaN or Inf that reached a leaf: where it began, from which values, and what hid it in the forward.

One backward call that brings NaN into the weights breaks everything after it, so only the first one is examined. NaN
began in the first node, in the engine's order, that got finite gradients and sent others. If that node's call already
computed with broken values, the cause is in the forward: the call that made NaN or Inf from finite values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.origins import Origin, ValueOrigins, has_nan, is_asked_for, is_broken
from gradviz.analysis.numbers.gradient_origins import BROKEN, find_gradient_origins, state_of
from gradviz.analysis.numbers.lost_epsilon import lost_epsilon
from gradviz.analysis.numbers.masking import hides_by_choice, is_masked_in_backward
from gradviz.analysis.numbers.singularities import singularity_of
from gradviz.analysis.parameters.weighted_parameters import number_given
from gradviz.graph.call_log import CallLog, ValueFacts
from gradviz.graph.model import Graph, Node
from gradviz.graph.traversal import descendants

BrokenCause = Literal["nan_from_op", "nan_in_masked_branch", "overflow", "nan_in_data"]


@dataclass(frozen=True)
class BrokenGradient:
    """The first broken gradient and its cause."""

    cause: BrokenCause
    graph: int
    leaves: tuple[int, ...]
    """Nodes of the leaves that got NaN or Inf; empty if only the loss is broken."""
    is_nan: bool
    """False if they got Inf only."""
    gradient_origin: int
    """The node that made it from a finite gradient."""
    blamed: int | None
    """The node of the call to blame; None for calls that made none."""
    call: int | None = None
    """The call to blame, in the log."""
    is_unseen: bool = False
    """True if that call only received the broken values, and no recorded call made them."""
    in_forward: bool = False
    """True if its values are broken, not only its slope."""
    hider: int | None = None
    """The call that got the broken values and returned finite ones."""
    path: tuple[int, ...] = ()
    """Nodes from the origin to a leaf."""
    is_inside: bool = False
    """True if it began inside compiled code, where no values and gradients are known; `call` is that of this code."""


class RefusedValues(NamedTuple):
    """NaN or Inf in the forward, because of which the program ended."""

    cause: BrokenCause
    call: int
    """The call that made them, or got them first."""


_REFUSES_VALUES = re.compile(
    r"\b(nan|inf|infinite|non-?finite|finite)\b|invalid values|between 0 and 1|ill-conditioned|did not converge",
    re.IGNORECASE,
)
_MAX_CALLS_BACK = 50
"""The values that are refused were made just before."""


class BrokenGradients:
    """Finds it in the graphs of one run."""

    def __init__(self, backward_calls: BackwardCalls) -> None:
        self._backward_calls = backward_calls
        self._graphs = backward_calls.graphs
        self._flow = backward_calls.flow
        self._origins = ValueOrigins(self._flow)

    def first(self) -> BrokenGradient | None:
        """None if every gradient that reached a leaf was finite."""
        first, skipped = self._first_unscaled(), self._overflows_that_lowered_a_scale()
        for number, graph in enumerate(self._graphs[first:], first):
            if number in skipped:
                continue
            leaves = tuple(leaf.id for leaf in graph.leaves if state_of(leaf.arrived) in BROKEN)
            failed = graph.failed_node
            is_lost = not leaves and failed is None and self._is_loss_broken(number)
            if leaves or failed is not None or is_lost:
                origin = self._gradient_origin(graph, leaves, failed) or (
                    graph.nodes[graph.roots[0].node] if is_lost else None
                )
                if origin is not None:
                    return self._explained(number, leaves, origin)
                unmeasured = _first_unmeasured(graph, leaves)
                if unmeasured is not None:
                    return self._inside_compiled_code(number, leaves, unmeasured)
        return None

    def before_backward(self, message: str) -> RefusedValues | None:
        """What made the NaN or Inf that the program was refused for, before any backward could show it."""
        calls = self._flow.log.calls
        if _REFUSES_VALUES.search(message) is None:
            return None
        for row in range(len(calls) - 1, max(-1, len(calls) - _MAX_CALLS_BACK), -1):
            origin = _forward_origin(self._flow, self._origins, row)
            if origin is not None and not is_asked_for(calls[origin.call]):
                by_size = singularity_of(calls[origin.call]) is None and self._is_by_size(origin)
                computed: BrokenCause = "overflow" if by_size else "nan_from_op"
                return RefusedValues(computed if self._is_computed(origin) else "nan_in_data", origin.call)
        return None

    def _first_unscaled(self) -> int:
        """The first graph that counts: a gradient scaler tries large scales first, and skips steps that overflow."""
        if not uses_gradient_scaler(self._flow.log):
            return 0
        fine = (number for number, graph in enumerate(self._graphs) if not _is_any_leaf_broken(graph))
        return max(fine, default=0)

    def _overflows_that_lowered_a_scale(self) -> frozenset[int]:
        """The graphs whose finite loss was multiplied by a number so large that a gradient was not, before a step that
        the program then left out, and a smaller number: loss scaling by hand."""
        rows = [self._backward_calls.row_of(number) for number in range(len(self._graphs))]
        scales = [1.0 if row is None else _scale_of_loss(self._flow, row) for row in rows]
        found = []
        for number, (row, following) in enumerate(pairwise(rows)):
            if scales[number] <= max(1.0, scales[number + 1]) or row is None or following is None:
                continue
            if self._flow.step_before(following) < row and not self._is_loss_broken(number):
                found.append(number)
        return frozenset(found)

    def _is_loss_broken(self, number: int) -> bool:
        """Whether a root was NaN or Inf although the leaves got finite gradients: a mask may have dropped it."""
        row = self._backward_calls.row_of(number)
        if row is None:
            return False
        roots = self._flow.log.calls[row].roots
        return any(use in roots for use in self._origins.inputs_of_kind(row, is_broken))

    def _gradient_origin(self, graph: Graph, leaves: tuple[int, ...], failed: int | None) -> Node | None:
        """The first node in the engine's order from which NaN or Inf reached a broken leaf, or which torch refused."""
        broken = [
            graph.nodes[node]
            for node, origin in find_gradient_origins(graph).by_node.items()
            if origin.state in BROKEN and origin.by != "hook"
        ]
        leading = descendants(graph, set(leaves) | ({failed} if failed is not None else set()))
        in_order = sorted(broken, key=lambda node: (node.run is None, node.run.order if node.run else 0, node.id))
        return next((node for node in in_order if node.id in leading), None)

    def _plain(self, number: int, leaves: tuple[int, ...], gradient_origin: Node) -> BrokenGradient:
        graph = self._graphs[number]
        arrived = [figures for leaf in leaves for figures in graph.nodes[leaf].arrived]
        is_nan = state_of(arrived) == "nan" if leaves else True
        return BrokenGradient(
            "nan_from_op",
            number,
            leaves,
            is_nan,
            gradient_origin.id,
            gradient_origin.id,
            path=_path_to_a_leaf(graph, gradient_origin),
        )

    def _inside_compiled_code(self, number: int, leaves: tuple[int, ...], node: Node) -> BrokenGradient:
        """Unless the compiled code was given broken values."""
        plain = self._plain(number, leaves, node)
        row = self._flow.call_of_node(msgspec.structs.replace(node, inner_nr=0))
        origin = None if row is None else _forward_origin(self._flow, self._origins, row)
        return replace(plain, call=row, is_inside=True) if origin is None else self._of_values(plain, origin)

    def _explained(self, number: int, leaves: tuple[int, ...], gradient_origin: Node) -> BrokenGradient:
        plain = self._plain(number, leaves, gradient_origin)
        row = self._flow.call_of_node(gradient_origin)
        if row is None:
            return plain
        origin = _forward_origin(self._flow, self._origins, row)
        if origin is None or (self._is_asked_for(origin) and not self._is_loss_broken(number)):
            return self._of_slope(plain, row)
        return self._of_values(plain, origin)

    def _is_asked_for(self, origin: Origin) -> bool:
        """Whether the program fills a mask with -Inf there, of which a derivative is NaN though the loss is finite."""
        return not origin.is_unseen and is_asked_for(self._flow.log.calls[origin.call])

    def _of_slope(self, plain: BrokenGradient, row: int) -> BrokenGradient:
        """All values are finite, but the derivative is not."""
        graph = self._graphs[plain.graph]
        gradient_origin = graph.nodes[plain.gradient_origin]
        mask = is_masked_in_backward(graph, gradient_origin, self._flow)
        cause: BrokenCause = "nan_in_masked_branch" if mask is not None else "nan_from_op"
        if mask is None and _is_huge(gradient_origin) and singularity_of(self._flow.log.calls[row]) is None:
            cause = "overflow"
        return replace(plain, cause=cause, call=row, hider=mask)

    def _of_values(self, plain: BrokenGradient, origin: Origin) -> BrokenGradient:
        """Values were broken in the forward, starting from `origin`."""
        compiled = self._compiled_code_that_made(origin)
        if compiled is not None:
            return replace(plain, call=compiled, is_inside=True)
        backward = self._backward_calls.row_of(plain.graph)
        found = replace(
            plain, call=origin.call, is_unseen=origin.is_unseen, in_forward=True, blamed=self._node(plain, origin)
        )
        hider = self._hider(origin, backward)
        if hider is not None:
            return replace(found, cause="nan_in_masked_branch", hider=hider)
        if not self._is_computed(origin):
            return replace(found, cause="nan_in_data")
        call = self._flow.log.calls[origin.call]
        divides_by_zero = singularity_of(call) is not None or lost_epsilon(self._flow, origin.call) is not None
        is_by_size = not divides_by_zero and self._is_by_size(origin)
        return replace(found, cause="overflow" if is_by_size else "nan_from_op")

    def _compiled_code_that_made(self, origin: Origin) -> int | None:
        """The call of compiled code that returned the broken values, if no values inside it are known."""
        maker = self._flow.newest_producer(origin.tensor, origin.call) if origin.is_unseen else None
        calls = self._flow.log.calls
        if maker is None or any(use.values is not None for use in calls[maker].outputs):
            return None
        return next((row for row in range(maker, -1, -1) if calls[row].kind == "compiled"), None)

    def _is_by_size(self, origin: Origin) -> bool:
        """Whether it returned Inf, or NaN because its finite inputs are so large that a sum of products is Inf -
        Inf."""
        given = [use.values for use in self._origins.outputs_of_kind(origin.call, is_broken)]
        if given and not any(values is not None and values.nans for values in given):
            return True
        uses = self._flow.log.calls[origin.call].inputs
        taken = [values for use in uses if (values := self._flow.values_of(use, origin.call)) is not None]
        return all(values.is_finite for values in taken) and any(_largest(values) > HUGE for values in taken)

    def _hider(self, origin: Origin, backward: int | None) -> int | None:
        """The first call that selected other values instead of the broken ones, if the loss is finite."""
        flow, origins = self._flow, self._origins
        if backward is None or any(origins.inputs_of_kind(backward, is_broken)):
            return None
        for row in flow.descendants(origin.tensor, origin.call - origin.is_unseen, backward):
            call = flow.log.calls[row]
            known = [use.values for use in call.outputs if use.values is not None and use.requires_grad]
            if known and all(values.is_finite for values in known) and origins.inputs_of_kind(row, is_broken):
                return row if hides_by_choice(call) else None
        return None

    def _is_computed(self, origin: Origin) -> bool:
        """Whether the broken values were computed from parameters, with gradients on or off."""
        flow = self._flow
        rows = (*flow.ancestors(origin.tensor, origin.call + 1), *(() if origin.is_unseen else (origin.call,)))
        return any(use.requires_grad for row in rows for use in flow.log.calls[row].inputs)

    def _node(self, plain: BrokenGradient, origin: Origin) -> int | None:
        """The newest node of the origin's call in the graph."""
        if origin.is_unseen:
            return None
        keys = set(self._flow.log.calls[origin.call].node_keys)
        made = [node for node in self._graphs[plain.graph].nodes if node.key in keys]
        return max(made, key=lambda node: node.key or (0, 0)).id if made else None


_SCALERS = frozenset({
    "torch._amp_foreach_non_finite_check_and_unscale_", "torch._amp_update_scale_",
})  # fmt: skip


def uses_gradient_scaler(log: CallLog) -> bool:
    """Whether a program scales its losses with `torch.amp.GradScaler`."""
    return any(call.function in _SCALERS for call in log.calls)


def _first_unmeasured(graph: Graph, leaves: tuple[int, ...]) -> Node | None:
    """Of the nodes above some leaves, the one that ran first and between whose neighbours nothing was measured."""
    above = descendants(graph, set(leaves))
    unmeasured = [
        node
        for node in graph.nodes
        if node.id in above and node.region is not None and not graph.regions[node.region].is_measured
    ]
    return min(unmeasured, key=lambda node: (node.run is None, node.run.order if node.run else 0), default=None)


def _scale_of_loss(flow: Dataflow, backward: int) -> float:
    """The number by which a loss was multiplied last, before its backward; 1 if by none."""
    roots = flow.log.calls[backward].roots
    row = flow.newest_producer(roots[0].tensor, backward) if len(roots) == 1 else None
    if row is None or plain_name(flow.log.calls[row].function) != "mul":
        return 1.0
    return number_given(flow.log.calls[row], "0", "1", "other") or 1.0


def _is_any_leaf_broken(graph: Graph) -> bool:
    return any(state_of(leaf.arrived) in BROKEN for leaf in graph.leaves)


def _forward_origin(flow: Dataflow, origins: ValueOrigins, row: int) -> Origin | None:
    """The call that first made broken values, if a call computed with them or returned them."""
    for kind in (has_nan, is_broken):
        broken = origins.inputs_of_kind(row, kind)
        if broken:
            first = min(origins.oldest_of_kind(use.tensor, row, kind) for use in broken)
            made = origins.outputs_of_kind(row, has_nan) if kind is is_broken else []
            if made and not first.is_unseen and is_asked_for(flow.log.calls[first.call]):
                return Origin(row, made[0].tensor)  # -Inf in a mask is usual: NaN begins where it is computed with
            return _behind_inf(flow, origins, first)
    made = origins.outputs_of_kind(row, is_broken)
    return _behind_inf(flow, origins, Origin(row, made[0].tensor)) if made else None


def _behind_inf(flow: Dataflow, origins: ValueOrigins, origin: Origin) -> Origin:
    """NaN made from Inf begins where the Inf begins, unless the program asked for the Inf."""
    if origin.is_unseen:
        return origin
    infinite = origins.inputs_of_kind(origin.call, is_broken)
    earlier = [each for use in infinite for each in origins.of_kind(use.tensor, origin.call, is_broken)]
    unasked = [each for each in earlier if not is_asked_for(flow.log.calls[each.call])]
    return min(unasked, default=origin)


HUGE = 1e15
"""Values with such elements almost overflow, just by their size."""


def _largest(values: ValueFacts) -> float:
    return max(abs(values.minimum or 0.0), abs(values.maximum or 0.0))


def _is_huge(node: Node) -> bool:
    return any(figures is not None and (figures.largest or 0.0) > HUGE for figures in node.arrived)


def _path_to_a_leaf(graph: Graph, gradient_origin: Node) -> tuple[int, ...]:
    """Nodes that passed it on, from the origin to the nearest leaf."""
    came_from: dict[int, int | None] = {gradient_origin.id: None}
    waiting = [gradient_origin.id]
    for current in waiting:
        if graph.nodes[current].is_leaf:
            return tuple(reversed(list(_back(came_from, current))))
        for target in _broken_targets(graph.nodes[current]):
            if target not in came_from:
                came_from[target] = current
                waiting.append(target)
    return (gradient_origin.id,)


def _broken_targets(node: Node) -> Iterator[int]:
    for edge, sent in zip(node.edges, node.gradients, strict=False):
        if edge is not None and sent is not None and (sent.nans or sent.infs):
            yield edge.target


def _back(came_from: dict[int, int | None], node: int | None) -> Iterator[int]:
    while node is not None:
        yield node
        node = came_from[node]
