"""GV214."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.numbers.gradient_origins import senders
from gradviz.analysis.numbers.rounding_gradients import RoundingGradient
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.divided_out import DividedOut, divided_out
from gradviz.analysis.rules.bases.sequences.attention.shifts_before_softmax import Cancelled, cancelled_offsets
from gradviz.graph.model import CallSite
from gradviz.graph.query.operation_names import operation_word


class OnlyRounding(Rule):
    """A parameter gets only rounding errors as its gradient, because what comes back to it cancels out.

    What it finds
    -------------
    Parameters whose gradient is not exactly zero, but at every step smaller than the last digits of what it is the sum
    of. What they compute is added to all members of a softmax, a normalization or a difference alike, or an operation
    along an axis of one element returns its input, which is then subtracted from itself. A bias that is added right
    there, as layers have one, is left out: it does no harm. Also a trained table of numbers that are added each to all
    members of a softmax, and a trained scale that only multiplies what is normalized behind it, by ``normalize()``, a
    layer norm, a cosine or a division by its own length. Also a network of which one of several backward calls brings
    back only rounding: its result is divided by its own size there.

    Why it matters
    --------------
    The gradient has a norm and looks alive, but it is noise. Adam even scales it up to steps of the usual size, so that
    the parameter wanders about.

    Example
    -------
    key, query = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*key.parameters(), *query.parameters()], lr=0.1)
    for step in range(4):
        x, y = torch.randn(8, 5, 4), torch.randn(8, 4)
        scores = key(x) + query(x[:, :1])
        loss = ((torch.softmax(scores, 1) * x).sum(1) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    key, query = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*key.parameters(), *query.parameters()], lr=0.1)
    for step in range(4):
        x, y = torch.randn(8, 5, 4), torch.randn(8, 4)
        scores = torch.tanh(key(x) + query(x[:, :1]))
        loss = ((torch.softmax(scores, 1) * x).sum(1) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV214"
    name = "only_rounding"
    severity = "warning"
    yields_to = ("cancels_to_zero", "normalized_alone", "ratio_always_one")

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        trained = {name for number in histories.trained for name in histories.tensor(number).names}
        groups: dict[tuple[Location | None, bool, CallSite | None], list[RoundingGradient]] = defaultdict(list)
        for found in case.rounding_gradients:
            if found.leaf in trained:
                where = case.location_of(found.graph, _start(found))
                groups[where, found.at.is_meeting, found.backward].append(found)
        for group in groups.values():
            if group[0].backward is None:
                yield self._finding(case, group)
            elif len(group) >= _MIN_OF_NETWORK:
                yield self._of_one_backward(case, group, group[0].backward)
        told = {found.leaf for group in groups.values() for found in group}
        for scale in divided_out(histories):
            if told.isdisjoint(histories.tensor(scale.parameter).names):
                yield self._divided_out(case, scale)
        for offset in cancelled_offsets(histories):
            if told.isdisjoint(histories.tensor(offset.parameter).names):
                yield self._cancelled(case, offset)

    def _cancelled(self, case: Case, offset: Cancelled) -> Finding:
        flow, name = case.dataflow, case.histories.name(offset.parameter)
        location, taken = two_lines(flow, offset.added, offset.softmax)
        return self.finding(
            f"{name} has no influence: it adds the same to all members of "
            f"{call_words(flow.log.calls[offset.softmax])}{at_line(taken)}, which takes it away again",
            symptom="grad_zero",
            why="a softmax depends on differences of scores only, so the gradient of what all have is rounding error",
            fix="give it a number for each member: an axis as long as that of the softmax; or take it out",
            location=location,
            symptom_location=taken,
            tensors=names_of(flow, [offset.parameter]),
        )

    def _divided_out(self, case: Case, scale: DividedOut) -> Finding:
        flow, name = case.dataflow, case.histories.name(scale.parameter)
        location, normalized = two_lines(flow, scale.scaled, scale.normalized)
        return self.finding(
            f"{name} has no influence: it only multiplies what {call_words(flow.log.calls[scale.normalized])}"
            f"{at_line(normalized)} normalizes, which divides it out again",
            symptom="grad_zero",
            why="a vector times a number has the same direction, so the gradient of the number is only rounding error",
            fix="multiply behind the normalization: scale * F.normalize(x, dim=-1)",
            location=location,
            symptom_location=normalized,
            tensors=names_of(flow, [scale.parameter]),
        )

    def _finding(self, case: Case, group: list[RoundingGradient]) -> Finding:
        first = group[0]
        names = tuple(found.leaf for found in group)
        alone = _along_one_element(case, first)
        start = case.location_of(first.graph, _start(first))
        return self.finding(
            f"the gradient of {together(names)} is only rounding error at all {first.steps:,} steps: "
            + (_cancels(case, first) if alone is None else alone.words),
            symptom="grad_zero",
            why="what is the same for all members of a softmax, a normalization or a difference has no influence on it"
            if alone is None
            else "the gradients of x and of f(x) = x cancel out in x - f(x)",
            fix=(
                "let it act on each member in its own way: an activation after the sum, a product instead of a sum; "
                "or take it out"
            )
            if alone is None
            else "name the axis that has the elements (dim=0), or take the axis of size 1 away first: squeeze(-1)",
            location=start if alone is None else case.location_of_call(alone.call),
            tensors=names,
            nodes=case.nodes_in(first.graph, (_start(first), *(found.leaf_node for found in group))),
            evidence={"steps": first.steps, "leaves": len(names)},
        )

    def _of_one_backward(self, case: Case, group: list[RoundingGradient], backward: CallSite) -> Finding:
        first = group[0]
        names = tuple(found.leaf for found in group)
        what, where = _words(case, first.graph, first.at.node)
        return self.finding(
            f"{what}{where} has no influence on the loss of backward(){at_line(location_of_line(backward))}: "
            f"what comes back to it on several paths cancels out at {first.steps:,} of {first.of:,} calls",
            symptom="grad_zero",
            why="a value that is divided by its own size, with the gradient of both, is 1 or -1, whatever it was",
            fix="let the gradient go through one of the two alone: detach() the factor that scales the other",
            location=case.location_of(first.graph, _start(first)),
            symptom_location=location_of_line(backward),
            tensors=names,
            nodes=case.nodes_in(first.graph, (_start(first), *(found.leaf_node for found in group))),
            evidence={"calls": first.steps, "leaves": len(names)},
        )


_MIN_OF_NETWORK = 2
"""A bias alone may cancel in a difference of two scores."""


def _start(found: RoundingGradient) -> int:
    """The node to tell: that from which the paths come, or that which sends the sum."""
    return found.at.node if found.split is None else found.split


class _Alone(Struct, frozen=True):
    """A call along an axis of one element."""

    call: int
    words: str


_ALONG_AN_AXIS = frozenset({"logcumsumexp", "cumsum", "logsumexp", "mean", "sum", "amax", "max", "cummax"})


def _along_one_element(case: Case, found: RoundingGradient) -> _Alone | None:
    """The call on one of the paths that works along an axis with one element, and so returns its input."""
    graph, flow = case.graphs[found.graph], case.dataflow
    for sender in sorted(senders(graph).get(found.at.node, ())) if found.at.is_meeting else ():
        row = flow.call_of_node(graph.nodes[sender])
        words = None if row is None else _along_one(flow, row)
        if row is not None and words is not None:
            return _Alone(row, words)
    return None


def _along_one(flow: Dataflow, row: int) -> str | None:
    call = flow.log.calls[row]
    shape = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
    axis = axis_of(call, len(shape)) if plain_name(call.function) in _ALONG_AN_AXIS else None
    if axis is None or shape[axis] != 1:
        return None
    sizes = " x ".join(map(str, shape))
    return f"{call_words(call)} works along axis {axis} of {sizes}, which has one element, and returns what it got"


def _cancels(case: Case, found: RoundingGradient) -> str:
    what, where = _words(case, found.graph, _start(found))
    if found.at.is_meeting:
        return f"what comes back on the several paths from {what}{where} cancels out"
    after = _common_part_removed(case, found)
    if after is None:
        return f"{what}{where} gives the same to several elements, and what comes back from them cancels out"
    remover, line = _words(case, found.graph, after)
    return f"{what}{where} gives the same to all members of {remover}{line}, which takes it away again"


def _words(case: Case, graph: int, number: int) -> tuple[str, str]:
    """The call that made a node, and its line."""
    node = case.graphs[graph].nodes[number]
    row = case.dataflow.call_of_node(node)
    what = call_words(case.dataflow.log.calls[row]) if row is not None else f"{operation_word(node.name)}()"
    return what, at_line(case.location_of(graph, number))


_REMOVES = ("Softmax", "LogSoftmax", "Logsumexp", "NativeLayerNorm", "NativeGroupNorm", "NativeBatchNorm")
_MAX_AFTER = 12


def _common_part_removed(case: Case, found: RoundingGradient) -> int | None:
    """The nearest node that got the sum and does not depend on what is common to its members, along one path."""
    nodes, above, number = case.graphs[found.graph].nodes, senders(case.graphs[found.graph]), found.at.node
    for _ in range(_MAX_AFTER):
        users = above.get(number, set())
        if len(users) != 1:
            return None
        number = next(iter(users))
        if nodes[number].name.startswith(_REMOVES):
            return number
    return None
