"""GV738."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import TensorUse, ValueFacts


class PrunedGrowsBack(Rule):
    """Weights that a mask has set to zero are trained again, and become other than zero.

    What it finds
    -------------
    A trained parameter of which a mask sets some elements to zero once (``p.mul_(mask)``, ``p.data *= mask``,
    ``p[mask] = 0``) between two steps of an optimizer, where the mask comes from the size of the weights or is named as
    one, and most of these zeros are gone after the next steps; also elements that are told by their numbers, as with
    ``index_fill_()``. Left alone are masks that the program uses again, on weights, on gradients or in forward,
    parameters with hooks, weights that are masked several times or restored, and what is done before the first step.

    Why it matters
    --------------
    The gradient of a weight does not depend on whether it was pruned, so the next step moves it away from zero: the
    model is dense again, and its measured sparsity is lost.

    Example
    -------
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for step in range(6):
        if step == 2:
            with torch.no_grad():
                mask = (layer.weight.abs() > layer.weight.abs().median()).float()
                layer.weight.mul_(mask)
        optimizer.zero_grad()
        (layer(torch.randn(16, 8)) - 1).square().mean().backward()
        optimizer.step()

    Instead
    -------
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for step in range(6):
        if step == 2:
            with torch.no_grad():
                mask = (layer.weight.abs() > layer.weight.abs().median()).float()
                layer.weight.mul_(mask)
        optimizer.zero_grad()
        (layer(torch.randn(16, 8)) - 1).square().mean().backward()
        optimizer.step()
        if step >= 2:
            with torch.no_grad():
                layer.weight.mul_(mask)
    """

    code = "GV738"
    name = "pruned_grows_back"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        lines: dict[Location | None, list[_Pruned]] = defaultdict(list)
        for found in _pruned(case):
            lines[location_of_call(case.dataflow, found.row)].append(found)
        for line, of_line in lines.items():
            yield self._finding(case, line, of_line)

    def _finding(self, case: Case, line: Location | None, found: list[_Pruned]) -> Finding:
        flow = case.dataflow
        step = location_of_call(flow, found[0].step)
        zeros, left = sum(each.zeros for each in found), sum(each.left for each in found)
        parameters = [each.parameter for each in found]
        return self.finding(
            f"a mask sets {zeros:,} weights of {case.histories.together(parameters)} to zero, and the next steps"
            f"{at_line(step)} train them again: {left:,} of them are still zero",
            symptom="grad_wrong",
            why="the mask is used once, and a step moves every weight that has a gradient or a momentum",
            fix="keep the mask and multiply the weights with it after each optimizer.step(), or use "
            "torch.nn.utils.prune, which masks them in forward",
            location=line,
            symptom_location=step,
            tensors=names_of(flow, parameters),
            evidence={"zeros": zeros, "left": left},
        )


class _Pruned(Struct, frozen=True):
    """A parameter that was masked once."""

    parameter: int
    row: int
    step: int
    """The first step after it."""
    zeros: int
    left: int
    """Zeros after the last step."""


_MIN_PART = 0.1
_MIN_ZEROS = 3
_MOST_LEFT = 0.5
_MIN_STEPS_AFTER = 2
_ASSIGNS_DATA = "torch.Tensor.data.__set__"
_BY_INDEX = frozenset({"index_fill", "scatter", "index_put", "setitem"})
"""They may set elements to zero that are told by their numbers, as those of ``topk()``."""
_MASKS = _BY_INDEX | {"mul", "masked_fill", "copy", "set"}
_NAMED = re.compile(r"prun|mask|spars|keep", re.IGNORECASE)
_MAX_MAKERS = 40


def _pruned(case: Case) -> Iterator[_Pruned]:
    flow = case.dataflow
    stepped: dict[int, list[tuple[int, TensorUse]]] = defaultdict(list)
    for step in case.histories.steps if not flow.log.dropped else ():  # else it may be masked again where none is kept
        for use in flow.log.calls[step].outputs:
            stepped[use.tensor].append((step, use))
    for parameter, moves in stepped.items():
        changes = _changes_by_program(flow, parameter, moves[0][0])
        after = [(step, use) for step, use in moves if changes and step > changes[0]]
        if len(changes) != 1 or len(after) < _MIN_STEPS_AFTER:
            continue
        zeros = _zeros_by_mask(case, parameter, changes[0])
        left = [use.values.zeros for _, use in after if use.values is not None]
        if zeros and left and max(left) <= _MOST_LEFT * zeros and not _has_hook(flow, parameter):
            yield _Pruned(parameter, changes[0], after[0][0], zeros, left[-1])


def _changes_by_program(flow: Dataflow, parameter: int, after: int) -> list[int]:
    """Calls of the program itself that change a parameter, other than steps of an optimizer."""
    calls = flow.log.calls
    rows = {*flow.changes(parameter, after, len(calls)), *flow.data_replacements(parameter)}
    return sorted(row for row in rows if row > after and calls[row].kind != "step" and calls[row].inside is None)


def _zeros_by_mask(case: Case, parameter: int, row: int) -> int:
    """The zeros that a call leaves in a parameter with a mask that nothing uses again; 0 if it does something else."""
    flow, call = case.dataflow, case.dataflow.log.calls[row]
    if call.function == _ASSIGNS_DATA:
        values = flow.values_of(call.inputs[-1], row)
    else:
        values = next((use.values for use in call.changed if use.values is not None), None)
    if plain_name(call.function) not in _MASKS or values is None or not _is_in_part_zero(values):
        return 0
    mask = _mask_of(flow, parameter, row)
    if mask is None or _is_used_again(flow, mask, row):
        return 0
    is_named = _NAMED.search(case.source_line(location_of_call(flow, row)) or "") is not None
    return values.zeros if is_named or _comes_from_sizes(flow, mask, row) else 0


def _is_in_part_zero(values: ValueFacts) -> bool:
    return max(_MIN_ZEROS, _MIN_PART * values.count) <= values.zeros < values.count


def _mask_of(flow: Dataflow, parameter: int, row: int) -> int | None:
    """The tensor of zeros and ones, as for the parameter, that a call uses, or that made what it copies."""
    call, shape = flow.log.calls[row], shape_of(flow, parameter)
    if plain_name(call.function) in ("copy", "set"):
        made = flow.newest_producer(call.inputs[-1].tensor, row)
        if made is None:
            return None
        row, call = made, flow.log.calls[made]
    for use in call.inputs:
        values = flow.values_of(use, row)
        is_mask = values is not None and (values.minimum, values.maximum) == (0, 1)
        if is_mask and _covers(shape_of(flow, use.tensor), shape) and use.tensor != parameter:
            return use.tensor
        is_index = "int" in flow.log.tensors[use.tensor].facts.dtype and plain_name(call.function) in _BY_INDEX
        if is_index and flow.log.tensors[use.tensor].facts.elements != 1:
            return use.tensor
    return None


def _covers(mask: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a mask has the shape of a parameter, or one number for each of its rows or columns."""
    return len(mask) == len(shape) and all(size in (1, of_weight) for size, of_weight in zip(mask, shape, strict=True))


def _is_used_again(flow: Dataflow, mask: int, row: int) -> bool:
    """Whether the mask, or what is computed from it, meets another tensor later."""
    calls = flow.log.calls
    is_used = any(len(calls[user].inputs) > 1 for user in flow.users(mask, row))  # the usual case, without a walk
    return is_used or any(len(calls[user].inputs) > 1 for user in flow.descendants(mask, row))


def _comes_from_sizes(flow: Dataflow, mask: int, row: int) -> bool:
    above = flow.ancestors(mask, row, flow.step_before(row))[-_MAX_MAKERS:]
    return any(plain_name(flow.log.calls[each].function) in ("abs", "square", "pow", "norm") for each in above)


def _has_hook(flow: Dataflow, parameter: int) -> bool:
    return any("hook" in flow.log.calls[row].function for row in flow.users(parameter))
