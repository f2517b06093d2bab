"""GV737."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.graph.call_log import Call, TensorUse


class StateStaysZero(Rule):
    """A hand-written optimizer computes a new average from zeros at every step, because the last one is not kept.

    What it finds
    -------------
    Tensors of zeros in the shape of a parameter, which each step adds to a gradient after it has multiplied them with a
    number below 1 (or to its square, or with ``lerp``), and which nothing ever writes. A state that is replaced in its
    list or dictionary, or changed in place, is left alone. Also zeros that each step makes anew and makes an average
    of: ``state.get(p, torch.zeros_like(p))`` stores nothing.

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
            for each in flow.lists.singles(row) if call.kind == "operation" and call.outputs else ():
                name, pair = plain_name(each.function), each.inputs[:2]
                for use, other in permutations(pair) if name in _SUMS and len(pair) > 1 else ():
                    leaf = _leaf_of_gradient(flow, use.tensor, row)
                    if leaf is not None:
                        sites[call.call_site].append((row, _zeros_added(flow, row, name, other, use), leaf))
        lines: dict[Location | None, list[tuple[int, int]]] = defaultdict(list)
        anew = set[Location | None]()
        for found in sites.values():
            lines[location_of_call(flow, found[0][0])] += _kept_zeros(flow, found)
            for made, states in _made_anew(flow, found).items():
                line = location_of_call(flow, made)
                if _STANDS_IN.search(case.source_line(line) or ""):
                    lines[line] += states
                    anew.add(line)
        for line, states in lines.items():
            if states:
                yield self._finding(case, line, states, is_anew=line in anew)

    def _finding(self, case: Case, line: Location | None, states: list[tuple[int, int]], *, is_anew: bool) -> Finding:
        names = names_of(case.dataflow, sorted({leaf for _, leaf in states}))
        whose = f" for {together(names)}" if names else ""
        return self.finding(
            f"every step computes an average{whose} from the zeros that it began with: nothing keeps what the last "
            "step computed",
            symptom="grad_wrong",
            why="the zeros are made again at each step, and what is computed of them is not put anywhere"
            if is_anew
            else "the assignment gives a name to a new tensor, and what holds the zeros still holds them",
            fix="keep the average where it is looked up: state.setdefault(name, torch.zeros_like(p))"
            if is_anew
            else "change the tensor in place, m.mul_(0.9).add_(g, alpha=0.1), or put the new one where the old one was",
            location=line,
            tensors=names,
            evidence={"states": len({zeros for zeros, _ in states})},
        )


_SUMS = frozenset({"add", "sub", "lerp", "addcmul"})
_STANDS_IN = re.compile(r"\.(get|pop)\(|\bgetattr\(|\b(else|or)\b")
"""Zeros that stand in for what is stored; others may be the beginning of a sum that ends with the step."""
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


def _made_anew(flow: Dataflow, found: list[tuple[int, int | None, int]]) -> dict[int, list[tuple[int, int]]]:
    """By the last call that made them: zeros that a line makes at each step for the same leaves, and the leaves."""
    steps: dict[tuple[int | None, int], dict[int | None, tuple[int, int]]] = defaultdict(dict)
    for row, zeros, leaf in found:
        made = None if zeros is None else next(iter(flow.producers(zeros)), None)
        if zeros is None or made is None:
            return {}
        if made > (flow.backward_before(row) or 0):
            steps[flow.log.calls[made].call_site, leaf][flow.backward_before(row)] = made, zeros
    states: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (_, leaf), read in steps.items():
        if len(read) >= _MIN_STEPS:
            made, zeros = max(read.values())
            states[made].append((zeros, leaf))
    if len({flow.log.calls[made].call_site for made in states}) > 1:
        return {}
    last = max(states, default=0)
    return {last: [each for of_call in states.values() for each in of_call]} if states else {}


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


def _zeros_added(flow: Dataflow, row: int, name: str, zeros: TensorUse, beside: TensorUse) -> int | None:
    """The tensor of zeros that a sum takes, made smaller, or beside a square; None if it is another."""
    call = flow.log.calls[row]
    tensor, other = zeros.tensor, beside.tensor
    is_average = name in ("lerp", "addcmul") or _is_square(flow, other, row)
    is_average |= _is_below_one(call.scalars.get("alpha"))
    if call.changed:
        return tensor if _are_zeros_of_this_step(flow, row, tensor, is_average=is_average) else None
    made = flow.newest_producer(tensor, row)
    scaling = None if made is None else flow.log.calls[made]
    if scaling is not None and plain_name(scaling.function) == "mul" and len(scaling.inputs) == 1 and _decays(scaling):
        tensor, is_average = scaling.inputs[0].tensor, True
    return tensor if is_average and _is_always_zero(flow, tensor, row) else None


def _are_zeros_of_this_step(flow: Dataflow, row: int, tensor: int, *, is_average: bool) -> bool:
    """Whether a call changes zeros that were made since the last backward, perhaps after they were made smaller."""
    made, before = flow.producers(tensor, row), flow.backward_before(row)
    if (
        not made
        or before is None
        or made[0] < before
        or plain_name(flow.log.calls[made[0]].function) not in _MAKE_ZEROS
    ):
        return False
    values = flow.values(tensor, row)
    changes = [flow.log.calls[each] for each in flow.changes(tensor, made[0], row)]
    is_smaller = [single_name(each) == "mul" and _decays(each) for each in changes]
    is_zero = values is not None and values.zeros == values.count > 0
    return is_zero and all(is_smaller) and (is_average or bool(is_smaller))


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
