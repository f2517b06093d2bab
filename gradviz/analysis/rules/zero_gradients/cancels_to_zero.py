"""GV209."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of, summed_by_einsum
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import normalizes_by_batch
from gradviz.analysis.dataflow.tensor_words import names_of, tensor_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call


class CancelsToZero(Rule):
    """A mean or sum is always the same, because what it adds up was normalized along the same axis.

    What it finds
    -------------
    ``mean()``, ``sum()``, ``einsum()`` of one tensor or an average pool that returns zero, but for rounding, at every
    step, of values that are not zero: they come from a normalization without trained factors (``InstanceNorm``,
    ``LayerNorm``), or had their own mean subtracted, along the axis that is now added up. Also a mean, a sum or a pool
    along these axes of what ``BatchNorm`` or ``InstanceNorm`` returned with a trained bias: it is that bias, whatever
    goes in.

    Why it matters
    --------------
    The result is a constant, whatever the layers before it do. They get a gradient that is only rounding, so they learn
    nothing, and what follows sees nothing of the input.

    Example
    -------
    conv, head = torch.nn.Conv1d(2, 8, 3), torch.nn.Linear(8, 3)
    norm, pool = torch.nn.InstanceNorm1d(8), torch.nn.AdaptiveAvgPool1d(1)
    optimizer = torch.optim.SGD([*conv.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        x, y = torch.randn(16, 2, 20), torch.randint(0, 3, (16,))
        features = pool(norm(torch.relu(conv(x)))).flatten(1)
        loss = torch.nn.functional.cross_entropy(head(features), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    conv, head = torch.nn.Conv1d(2, 8, 3), torch.nn.Linear(8, 3)
    norm, pool = torch.nn.InstanceNorm1d(8), torch.nn.AdaptiveAvgPool1d(1)
    optimizer = torch.optim.SGD([*conv.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        x, y = torch.randn(16, 2, 20), torch.randint(0, 3, (16,))
        features = pool(torch.relu(norm(conv(x)))).flatten(1)
        loss = torch.nn.functional.cross_entropy(head(features), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV209"
    name = "cancels_to_zero"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[tuple[int | None, str], list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            if (
                plain_name(call.function) in _ADD_UP
                and len(call.inputs) == len(call.live_inputs) == 1
                and flow.has_step_after(row)
            ):
                path = flow.log.scopes[call.scope].path if call.scope is not None else ""
                lines[call.call_site, path].append(row)
        told: set[tuple[Location | None, Location | None]] = set()
        for rows in lines.values():
            if len(rows) < _MIN_CALLS:
                continue
            is_zero = all(_is_zero(flow, row) for row in rows)
            if not is_zero and any(_normalized_with_bias(flow, row) is None for row in rows):
                continue
            if _only_centres(flow, rows[-1]):
                continue
            normalizing = _normalization(flow, rows[-1]) if is_zero else _normalized_with_bias(flow, rows[-1])
            backward = None if normalizing is None else _trained_by(flow, rows[-1])
            if normalizing is None or backward is None:
                continue
            lines_of_both = location_of_call(flow, normalizing), location_of_call(flow, rows[-1])
            if lines_of_both not in told:  # two means on one line are one mistake
                told.add(lines_of_both)
                yield self._finding(case, rows, normalizing, backward)

    def _finding(self, case: Case, rows: list[int], normalizing: int, backward: int) -> Finding:
        flow = case.dataflow
        call, maker = flow.log.calls[rows[-1]], flow.log.calls[normalizing]
        is_layer = plain_name(maker.function) in _NORMALIZE
        is_shared = _runs_on_other_lines(flow, normalizing)
        made = flow.line_of(normalizing) if is_shared else line_of_layer(flow, normalizing)
        location, added = location_of_line(made), location_of_call(flow, rows[-1])
        if _are_in_two_functions(flow, rows[-1], normalizing):
            location, added = added, location  # the normalization may be right where others use it
        by = plain_name(maker.function) if is_layer else "the subtraction of their mean"
        biases = [use.tensor for use in maker.inputs if use.is_live_leaf and use.place in _BIAS] if is_layer else []
        result = " and ".join(tensor_words(flow, tensor) for tensor in biases)
        return self.finding(
            f"{call_words(call)} {f'depends on {result} alone' if result else 'is 0, but for rounding,'} at all "
            f"{len(rows):,} calls: it adds up values that {by} has given a mean of {result or 0} along the same axis",
            symptom="grad_zero",
            why="the result does not depend on the layers before it, so that they get no gradient from it",
            fix="put the activation between the two (pool(relu(norm(x)))), add up along another axis, or what comes "
            "before the normalization, or leave one of the two out",
            location=location,
            symptom_location=added if added != location else None,
            tensors=names_of(flow, sorted(_leaves_only_before(case, rows[-1], backward))),
            nodes=case.nodes_of_call(rows[-1]),
            evidence={"calls": len(rows)},
        )


_SUMS = frozenset({"sum", "nansum", "einsum"})
_ADD_UP = _SUMS | {
    "mean", "nanmean", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d",
    "avg_pool3d",
}  # fmt: skip
_NORMALIZE = frozenset({"instance_norm", "layer_norm", "group_norm", "batch_norm"})
_RESHAPE = SHAPE_ONLY | {"mT"}
_MIN_CALLS = 3
_ROUNDING = 1e-5
_ONE_SIDED = 1e-3
_MAX_STEPS = 8


def _is_zero(flow: Dataflow, row: int) -> bool:
    """Whether a call returned zero, but for rounding, of values on both sides of zero."""
    call = flow.log.calls[row]
    given, made = flow.values_of(call.inputs[0], row), call.outputs[0].values if call.outputs else None
    if given is None or made is None or made.count >= given.count or not (given.is_finite and made.is_finite):
        return False
    low, high = given.minimum or 0.0, given.maximum or 0.0
    largest = max(-low, high)
    added = given.count // made.count if plain_name(call.function) in _SUMS and made.count else 1
    result = max(abs(made.minimum or 0.0), abs(made.maximum or 0.0)) / added
    return min(-low, high) > _ONE_SIDED * largest and result <= _ROUNDING * largest


def _normalization(flow: Dataflow, row: int) -> int | None:
    """The call that gave the values that a call adds up a mean of zero, before they were only scaled or reshaped."""
    tensor = flow.log.calls[row].inputs[0].tensor
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, row)
        if made is None:
            return None
        call, name, row = flow.log.calls[made], plain_name(flow.log.calls[made].function), made
        if name in _NORMALIZE:
            return None if any(use.is_live_leaf for use in call.inputs[1:]) else made
        if name in ("sub", "add"):
            return made if _is_minus_its_mean(flow, made, call) else None
        scaled = _scaled(flow, call, tensor) if name in ("mul", "div", "neg") else None
        if scaled is None and (name not in _RESHAPE or name == "getitem" or not call.inputs):
            return None
        tensor = call.inputs[0].tensor if scaled is None else scaled
    return None


def _normalized_with_bias(flow: Dataflow, row: int) -> int | None:
    """The normalization with a trained bias for each channel behind which a call adds up all that it averaged: the mean
    is the bias."""
    call = flow.log.calls[row]
    tensor = call.inputs[0].tensor
    shape, made = shape_of(flow, tensor), flow.newest_producer(tensor, row)
    if made is None or len(shape) < _BOTH or not normalizes_by_batch(flow.log.calls[made]):
        return None
    if not any(use.is_live_leaf and use.place in _BIAS for use in flow.log.calls[made].inputs):
        return None
    axes = _axes_added_up(call, shape)
    within = set(range(2, len(shape)))
    averaged = within if plain_name(flow.log.calls[made].function) == "instance_norm" else within | {0}
    return made if averaged and averaged <= axes else None


_BIAS = ("4", "bias")


def _axes_added_up(call: Call, shape: tuple[int, ...]) -> set[int]:
    """The axes that a call adds up, counted from the front."""
    rank, name = len(shape), plain_name(call.function)
    if name == "einsum":
        return set(summed_by_einsum(call, call.inputs[0], rank) or ())
    if "pool" in name:
        sizes = {value for place, value in call.scalars.items() if place.startswith(("1", "output_size"))}
        return set(range(2, rank)) if sizes == {1} and name.startswith("adaptive") else set()
    return set(axes_of(call, rank)) or set(range(rank))


def _scaled(flow: Dataflow, call: Call, result: int) -> int | None:
    """The only operand that has all elements of a product: the others are the same along some axis."""
    count = prod(shape_of(flow, result))
    full = [use.tensor for use in call.inputs if prod(shape_of(flow, use.tensor)) == count]
    return full[0] if len(full) == 1 else None


def _is_minus_its_mean(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether it is ``x - x.mean()``, perhaps along some axes."""
    is_add = plain_name(call.function) == "add"
    if len(call.live_inputs) != _BOTH or number_of(call, "alpha", missing=1.0) != (-1 if is_add else 1):
        return False
    value, mean = (use.tensor for use in call.inputs)
    for made, maker in flow.makers(mean, row, _MAX_STEPS):
        name = plain_name(maker.function)
        if name in _MEANS:
            return bool(maker.inputs) and maker.inputs[0].tensor == value and made < row
        is_scaled = name in ("div", "mul") and len(maker.inputs) == 1
        if name not in _RESHAPE and not is_scaled:
            return False
    return False


def _only_centres(flow: Dataflow, row: int) -> bool:
    """Whether a mean is only subtracted, from the values themselves and perhaps from others that are compared with
    them: to centre once more changes nothing."""
    mean = flow.log.calls[row].outputs[0].tensor
    users = [(user, flow.log.calls[user]) for user in flow.users(mean, row)]
    reads = [(user, call) for user, call in users if call.kind == "operation" and call.outputs]
    is_subtracted = all(
        plain_name(call.function) == "sub" and call.inputs[-1].tensor == mean != call.inputs[0].tensor
        for _, call in reads
    )
    return is_subtracted and any(_is_minus_its_mean(flow, user, call) for user, call in reads)


_MEANS = _SUMS | {"mean", "nanmean", "var_mean", "std_mean"}
_BOTH = 2


def _are_in_two_functions(flow: Dataflow, one: int, other: int) -> bool:
    lines = [flow.line_of(row) for row in (one, other)]
    return None not in lines and len({(line.file, line.function) for line in lines if line is not None}) > 1


def _runs_on_other_lines(flow: Dataflow, row: int) -> bool:
    """Whether the layer that made a call is called on other lines, too, where it may be right."""
    own, scopes = flow.log.calls[row], flow.log.scopes
    if own.scope is None:
        return False
    same = {number for number, scope in enumerate(scopes) if scope.path == scopes[own.scope].path}
    sites = {call.call_site for call in flow.log.calls if call.scope in same and call.function == own.function}
    return len({flow.line(site) for site in sites}) > 1


def _trained_by(flow: Dataflow, row: int) -> int | None:
    """A backward call that starts from something that was computed from the result."""
    tensor = flow.log.calls[row].outputs[0].tensor
    below = flow.descendants(tensor, row, live=True)
    return next((each for each in below if flow.log.calls[each].kind == "backward"), None)


def _leaves_only_before(case: Case, row: int, backward: int) -> frozenset[int]:
    """The leaves to which a gradient of a loss comes through a call alone."""
    histories, calls = case.histories, case.dataflow.log.calls
    before, _ = histories.live_leaves((use.tensor for use in calls[row].live_inputs), row)
    roots = (use.tensor for use in calls[backward].roots)
    beside, _ = histories.live_leaves(roots, backward, without=row)
    return before - beside
