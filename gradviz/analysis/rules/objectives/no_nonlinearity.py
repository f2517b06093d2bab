"""GV677."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class NoNonlinearity(Rule):
    """The layers of a network follow each other with nothing between them, so together they are one linear layer.

    What it finds
    -------------
    A loss whose network has two linear layers or more, where each gets the data or the result of another one, and where
    an inner layer is no bottleneck: it has sixteen units or more, and as many as the data or the result. Layers that
    are written out count as well: ``x @ w + b``, ``baddbmm()``, or ``einsum()`` with a parameter.

    Why it matters
    --------------
    A linear function of a linear function is linear: ``(x A) B = x (A B)``. However wide and deep it is, the network
    can learn what one layer from data to result can, and no more. The usual reason is a forgotten activation function.

    Example
    -------
    first, second = torch.nn.Linear(8, 64), torch.nn.Linear(64, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 8)
        loss = torch.nn.functional.cross_entropy(second(first(x)), x[:, :3].abs().argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    first, second = torch.nn.Linear(8, 64), torch.nn.Linear(64, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 8)
        loss = torch.nn.functional.cross_entropy(second(torch.relu(first(x))), x[:, :3].abs().argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV677"
    name = "no_nonlinearity"
    severity = "warning"
    yields_to = ("exploding_chain",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            since = flow.step_before(backward)
            above = {
                row for use in flow.log.calls[backward].roots for row in flow.ancestors(use.tensor, backward, since)
            }
            pairs = None if _trains_more_elsewhere(case, backward) else _pairs(flow, above)
            for first, second in pairs or ():
                site = flow.log.calls[second].call_site
                if site not in told and _is_wide(flow, first, second):
                    told.add(site)
                    yield self._finding(flow, first, second, len(pairs or ()) + 1)
                    break

    def _finding(self, flow: Dataflow, first: int, second: int, layers: int) -> Finding:
        made, location = location_of_call(flow, first), location_of_call(flow, second)
        return self.finding(
            f"the {layers:,} linear layers of this network follow each other with nothing between them: together they "
            "are one linear layer",
            symptom="grad_wrong",
            why="a linear function of a linear function is linear, however many units lie between",
            fix="put an activation function between the layers: torch.relu() around the result of the first",
            location=location,
            symptom_location=made if made != location else None,
            evidence={"layers": layers, "units between": _sizes(flow, first)[1]},
        )


_LINEAR = frozenset({"linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "einsum", "tensordot"})
_PASSES = frozenset({
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "dropout", "to", "clone", "float",
})  # fmt: skip
_MAX_STEPS = 12
_BOTH = 2
_MIN_UNITS = 16
"""Smaller networks are tries, of which nobody asks what they can learn."""


def _pairs(flow: Dataflow, above: set[int]) -> list[tuple[int, int]] | None:
    """Each layer with the one that it gets its input from; None if any layer gets something else that is computed, or
    if anything but these layers is trained."""
    pairs = []
    for row in above:
        call = flow.log.calls[row]
        weights = [use for use in call.inputs if use.is_live_leaf]
        if not weights or _adds_bias(flow, call):
            continue
        given = _given(call)
        if plain_name(call.function) not in _LINEAR or given is None:
            return None
        if not given.requires_grad:
            continue
        before = _layer_above(flow, given.tensor, row, above)
        if before is None:
            return None
        pairs.append((before, row))
    return pairs


def _trains_more_elsewhere(case: Case, backward: int) -> bool:
    """Whether another backward of the same line reaches further parameters: some steps leave layers out at random."""
    reached, calls = case.histories.reached_by, case.dataflow.log.calls
    site, own = calls[backward].call_site, reached[backward]
    return any(calls[row].call_site == site and leaves > own for row, leaves in reached.items())


def _given(call: Call) -> TensorUse | None:
    """What a layer computes with its own parameters; None if that is not one tensor."""
    given = [use for use in call.inputs if not use.is_live_leaf]
    return given[0] if len(given) == 1 else None


def _layer_above(flow: Dataflow, tensor: int, before: int, above: set[int]) -> int | None:
    """The layer whose result it is, if nothing else takes that."""
    for _ in range(_MAX_STEPS):
        row = flow.newest_producer(tensor, before)
        if row is None or sum(user in above for user in flow.users(tensor, row)) != 1:
            return None
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name in _LINEAR and any(use.is_live_leaf for use in call.inputs):
            return row
        if _adds_bias(flow, call):
            tensor, before = next(use.tensor for use in call.inputs if not use.is_live_leaf), row
            continue
        if name not in _PASSES or len(call.live_inputs) != 1:
            return None
        tensor, before = call.live_inputs[0].tensor, row
    return None


def _adds_bias(flow: Dataflow, call: Call) -> bool:
    """Whether a call adds a parameter to what has at least its shape, as the bias of a layer that is written out."""
    if plain_name(call.function) != "add" or len(call.inputs) != _BOTH or not call.outputs:
        return False
    biases = [use for use in call.inputs if use.is_live_leaf]
    others = [use for use in call.inputs if not use.is_live_leaf and use.requires_grad]
    shapes = [shape_of(flow, use.tensor) for use in (*others, *call.outputs)]
    return len(biases) == 1 and len(shapes) == _BOTH and shapes[0] == shapes[1]


def _is_wide(flow: Dataflow, first: int, second: int) -> bool:
    """Whether the first layer has as many units as it gets numbers, or as the second one has units."""
    given, units = _sizes(flow, first)
    _, result = _sizes(flow, second)
    return units >= max(_MIN_UNITS, min(given, result))


def _sizes(flow: Dataflow, row: int) -> tuple[int, int]:
    """How many numbers a layer gets of each sample, and how many it gives."""
    call = flow.log.calls[row]
    given, made = _given(call), call.outputs[0].tensor
    weight = max((use for use in call.inputs if use.is_live_leaf), key=lambda use: len(shape_of(flow, use.tensor)))
    equation = equation_of(call)
    letters = dict(zip((use.tensor for use in call.inputs), equation.terms, strict=False))
    if given is None or plain_name(call.function) != "einsum" or len(letters) != _BOTH or equation.has_dots:
        return (1 if given is None else _last_size(flow, given.tensor)), _last_size(flow, made)
    sizes = dict(zip(letters[weight.tensor], shape_of(flow, weight.tensor), strict=False))
    taken = {letter for letter in letters[weight.tensor] if letter not in equation.result}
    units = {letter for letter in letters[weight.tensor] if letter not in letters[given.tensor]}
    return prod(sizes[letter] for letter in taken), prod(sizes[letter] for letter in units)


def _last_size(flow: Dataflow, tensor: int) -> int:
    return (shape_of(flow, tensor) or (1,))[-1]
