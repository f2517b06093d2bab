"""GV737."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import is_squared
from gradviz.graph.call_log import Call


class StateStaysZero(Rule):
    """A hand-written optimizer computes a new average from zeros at every step, because the last one is not kept.

    What it finds
    -------------
    Tensors of zeros in the shape of a parameter, which each step adds to a gradient after it has multiplied them with a
    number below 1 (or to its square, or with ``lerp``), and which nothing ever writes. A state that is replaced in its
    list or dictionary, or changed in place, is left alone.

    Why it matters
    --------------
    ``m = 0.9 * m + 0.1 * g`` in a loop over ``zip(parameters, averages)`` gives the name of the loop's variable to a
    new tensor; the list keeps its zeros. There is no momentum, and each step only uses the newest gradient, made
    smaller.

    Example
    -------
    weight = torch.randn(4, 1, requires_grad=True)
    weights, averages = [weight], [torch.zeros_like(weight)]
    for step in range(4):
        loss = (torch.randn(8, 4) @ weight - 1).square().mean()
        with torch.no_grad():
            for p, g, m in zip(weights, torch.autograd.grad(loss, weights), averages):
                m = 0.9 * m + 0.1 * g
                p -= 0.1 * m

    Instead
    -------
    weight = torch.randn(4, 1, requires_grad=True)
    weights, averages = [weight], [torch.zeros_like(weight)]
    for step in range(4):
        loss = (torch.randn(8, 4) @ weight - 1).square().mean()
        with torch.no_grad():
            for p, g, m in zip(weights, torch.autograd.grad(loss, weights), averages):
                m.mul_(0.9).add_(g, alpha=0.1)
                p -= 0.1 * m
    """

    code = "GV737"
    name = "state_stays_zero"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        sites: dict[int | None, list[tuple[int, int | None, int]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            if call.kind == "operation" and plain_name(call.function) in _SUMS and call.outputs:
                for place, leaf in enumerate(_leaves_of_inputs(flow, row)[:_BOTH]):
                    if leaf is not None:
                        sites[call.call_site].append((row, _zeros_added(flow, row, 1 - place), leaf))
        lines: dict[Location | None, list[tuple[int, int]]] = defaultdict(list)
        for found in sites.values():
            lines[location_of_call(flow, found[0][0])] += _kept_zeros(flow, found)
        for line, states in lines.items():
            if states:
                yield self._finding(case, line, states)

    def _finding(self, case: Case, line: Location | None, states: list[tuple[int, int]]) -> Finding:
        names = names_of(case.dataflow, sorted({leaf for _, leaf in states}))
        whose = f" for {together(names)}" if names else ""
        return self.finding(
            f"every step computes an average{whose} from the zeros that it began with: nothing keeps what the last "
            "step computed",
            symptom="grad_wrong",
            why="the assignment gives a name to a new tensor, and what holds the zeros still holds them",
            fix="change the tensor in place, m.mul_(0.9).add_(g, alpha=0.1), or put the new one where the old one was",
            location=line,
            tensors=names,
            evidence={"states": len({zeros for zeros, _ in states})},
        )


_SUMS = frozenset({"add", "sub", "lerp", "addcmul"})
_BOTH = 2
_MIN_STEPS = 3
_MAX_MAKERS = 12
_OF_GRADIENTS = frozenset({
    "mul", "div", "pow", "square", "neg", "clamp", "clip", "detach", "clone", "data", "add", "float", "to", "sub",
})  # fmt: skip


def _kept_zeros(flow: Dataflow, found: list[tuple[int, int | None, int]]) -> list[tuple[int, int]]:
    """The zeros that all calls of a place add to gradients, with the leaves of these, if each is read at many steps."""
    steps: dict[int, set[int | None]] = defaultdict(set)
    leaves: dict[int, int] = {}
    for row, zeros, leaf in found:
        if zeros is None:
            return []
        steps[zeros].add(flow.backward_before(row))
        leaves[zeros] = leaf
    return [(zeros, leaves[zeros]) for zeros, read in steps.items() if len(read) >= _MIN_STEPS]


def _leaves_of_inputs(flow: Dataflow, row: int) -> list[int | None]:
    """For each input of a call, the leaf of whose gradient it was made, if it has its shape."""
    return [_leaf_of_gradient(flow, use.tensor, row) for use in flow.log.calls[row].inputs]


def _leaf_of_gradient(flow: Dataflow, tensor: int, before: int) -> int | None:
    shape, waiting, seen = shape_of(flow, tensor), [(tensor, before)], set[int]()
    while waiting and len(seen) < _MAX_MAKERS:
        tensor, before = waiting.pop()
        leaf = flow.log.tensors[tensor].gradient_of
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if leaf is None and call is not None and is_gradient(call):
            leaf = _asked_for(call, tensor)
        if leaf is not None:
            return leaf if shape_of(flow, leaf) == shape else None
        if made is not None and call is not None and made not in seen and plain_name(call.function) in _OF_GRADIENTS:
            seen.add(made)
            waiting += [(use.tensor, made) for use in call.inputs]
    return None


def _asked_for(call: Call, gradient: int) -> int | None:
    """The tensor whose gradient ``autograd.grad`` returned."""
    place = next((use.place.removeprefix("return") for use in call.outputs if use.tensor == gradient), "")
    return next((use.tensor for use in call.inputs if use.place == f"1{place}"), None)


def _zeros_added(flow: Dataflow, row: int, place: int) -> int | None:
    """The tensor of zeros that a sum takes at a place, made smaller, or beside a square; None if it is another."""
    call = flow.log.calls[row]
    if place >= len(call.inputs) or call.changed:
        return None
    tensor, other = call.inputs[place].tensor, call.inputs[1 - place].tensor
    is_average = plain_name(call.function) in ("lerp", "addcmul") or _is_square(flow, other, row)
    is_average |= place > 0 and _is_below_one(call.scalars.get("alpha"))
    made = flow.newest_producer(tensor, row)
    scaling = None if made is None else flow.log.calls[made]
    if scaling is not None and plain_name(scaling.function) == "mul" and len(scaling.inputs) == 1 and _decays(scaling):
        tensor, is_average = scaling.inputs[0].tensor, True
    return tensor if is_average and _is_always_zero(flow, tensor, row) else None


def _decays(scaling: Call) -> bool:
    return _is_below_one(scaling.scalars.get("1", scaling.scalars.get("0")))


def _is_below_one(factor: object) -> bool:
    return isinstance(factor, float) and 0 < factor < 1


def _is_square(flow: Dataflow, tensor: int, before: int) -> bool:
    made = flow.newest_producer(tensor, before)
    return made is not None and is_squared(flow.log.calls[made])


def _is_always_zero(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor was made of zeros before any gradient, and nothing wrote it, also later."""
    made = flow.producers(tensor)
    if len(made) != 1 or plain_name(flow.log.calls[made[0]].function) not in _MAKE_ZEROS:
        return False
    values = flow.values(tensor, row)
    is_zero = values is not None and values.zeros == values.count > 0
    is_written = bool(flow.changes(tensor, made[0], len(flow.log.calls))) or tensor in flow.data_assignments
    return is_zero and not is_written


_MAKE_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
