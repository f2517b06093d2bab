"""GV623."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.ordered_alone import ordered_alone
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import Call


class ShuffledApart(Rule):
    """Inputs and labels are shuffled by two different permutations, or only some of them are.

    What it finds
    -------------
    A loss that compares predictions with targets one by one, where the inputs were ordered by one ``randperm()`` and
    the targets by another one of the same length, and neither got the other's; or where a permutation of all samples
    orders the inputs alone, or the targets alone. Also a slice of data in the order in
    which they are stored (``advantages[i : i + 64]``) that is combined, element by element, with what was computed from
    data that a permutation of all of them ordered. Random numbers are left alone: they belong to no sample.

    Why it matters
    --------------
    Each input meets the label of another sample. The model can only learn how frequent the labels are; the loss stays
    at that level, and nothing raises.

    Example
    -------
    x, y = torch.randn(32, 4), torch.randint(0, 2, (32,))
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        inputs, labels = x[torch.randperm(32)], y[torch.randperm(32)]
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    x, y = torch.randn(32, 4), torch.randint(0, 2, (32,))
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        order = torch.randperm(32)
        inputs, labels = x[order], y[order]
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV623"
    name = "shuffled_apart"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) not in LOSSES_BY_SAMPLE or len(call.inputs) < _BOTH:
                continue
            if call.inputs[0].requires_grad and not call.inputs[1].requires_grad and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            apart = _apart(case, rows[0], *(use.tensor for use in flow.log.calls[rows[0]].inputs[:_BOTH]))
            alone = ordered_alone(case, rows[-1], _orderings) if apart is None else None
            if apart is not None:
                yield self._finding(case, rows[0], *apart)
            elif alone is not None:
                yield self._alone(case, rows[-1], alone)
        for slice_row, ordering in _slices_in_order(case):
            yield self._in_order(case, slice_row, ordering)

    def _in_order(self, case: Case, slice_row: int, ordering: int) -> Finding:
        flow = case.dataflow
        given = flow.log.calls[slice_row].inputs[0].tensor
        name, count = case.tensor_name(given), shape_of(flow, given)[0]
        location, other = location_of_call(flow, slice_row), location_of_call(flow, ordering)
        return self.finding(
            f"a slice of {name} is taken in the order of its {count:,} samples, and is combined with what comes from "
            f"samples in the order of a permutation{at_line(other)}",
            symptom="grad_wrong",
            why="each sample meets the value of another one",
            fix="index it with the same part of the permutation as the others",
            location=location,
            symptom_location=other if other != location else None,
            evidence={"samples": count},
        )

    def _alone(self, case: Case, row: int, ordering: int) -> Finding:
        flow = case.dataflow
        data = flow.log.calls[ordering].inputs[0].tensor
        location, loss = two_lines(flow, ordering, row)
        return self.finding(
            f"a permutation puts {case.tensor_name(data)} into another order, and what the loss{at_line(loss)} "
            "compares with it stays in the order of before",
            symptom="grad_wrong",
            why="each input meets the target of another sample, so there is nothing to learn but their frequencies",
            fix="index inputs and targets with one permutation: x, y = x[order], y[order]",
            location=location,
            symptom_location=loss,
            evidence={"samples": shape_of(flow, data)[0]},
        )

    def _finding(self, case: Case, row: int, of_inputs: int, of_targets: int) -> Finding:
        flow = case.dataflow
        first, second = location_of_call(flow, of_inputs), location_of_call(flow, of_targets)
        return self.finding(
            "the inputs were shuffled by one permutation and their targets by another"
            + (f", at line {first.line}" if first is not None and first != second else ""),
            symptom="grad_wrong",
            why="each input meets the target of another sample, so there is nothing to learn but their frequencies",
            fix="draw one permutation, and index both with it: order = torch.randperm(n); x[order], y[order]",
            location=second,
            symptom_location=first if first != second else location_of_call(flow, row),
        )


def _apart(case: Case, row: int, prediction: int, target: int) -> tuple[int, int] | None:
    """The calls that order the inputs and the targets, if they share no permutation."""
    flow = case.dataflow
    of_inputs = _orderings(case, flow.ancestors(prediction, row))
    of_targets = _orderings(case, flow.ancestors(target, row))
    only_inputs = [each for each in of_inputs.items() if each[0] not in of_targets]
    only_targets = [each for each in of_targets.items() if each[0] not in of_inputs]
    if not only_inputs or not only_targets:
        return None
    (one, first), (other, second) = only_inputs[-1], only_targets[-1]
    lengths = {shape_of(flow, flow.log.calls[each].outputs[0].tensor) for each in (one, other)}
    bases = {shape_of(flow, flow.log.calls[each].inputs[0].tensor)[:1] for each in (first, second)}
    return (first, second) if len(lengths) == 1 and bases == lengths else None


def _orderings(case: Case, rows: tuple[int, ...]) -> dict[int, int]:
    """By call of randperm(): the call that orders constants by all or a part of it."""
    found: dict[int, int] = {}
    for row in rows:
        drawn = _permutation_of(case, row)
        if drawn is not None:
            found[drawn] = row
    return found


def _permutation_of(case: Case, row: int) -> int | None:
    """The call of randperm() by all or a part of which a call orders constants."""
    call = case.dataflow.log.calls[row]
    name = plain_name(call.function)
    if name not in ("getitem", "index_select") or len(call.inputs) != 2 or call.inputs[0].requires_grad:
        return None
    return _permutation(case, call.inputs[1].tensor, row)


_PARTS = frozenset({"getitem", "split", "chunk", "narrow", "view", "reshape", "to", "unbind"})
_MAX_PARTS = 4


def _permutation(case: Case, tensor: int, row: int) -> int | None:
    """The call of ``randperm()`` that a tensor is, or is a part of."""
    for maker, call in case.dataflow.makers(tensor, row, _MAX_PARTS):
        if plain_name(call.function) == "randperm":
            return maker
        if plain_name(call.function) not in _PARTS:
            return None
    return None


def _slices_in_order(case: Case) -> Iterator[tuple[int, int]]:
    """Slices of samples that are combined with what comes from samples in the order of a permutation of all of them.

    Each slice stands with the call that orders the others; one of each line.
    """
    flow = case.dataflow
    lengths = _lengths_of_permutations(case)
    told: set[int | None] = set()
    tried: Counter[int | None] = Counter()
    for row, call in enumerate(flow.log.calls if lengths else ()):
        if not _combines(call) or not any(use.requires_grad for use in call.outputs) or not flow.has_step_after(row):
            continue
        tried[call.call_site] += 1
        if tried[call.call_site] > _MAX_TRIED:
            continue
        for use, other in zip(call.inputs, reversed(call.inputs), strict=True):
            made = None if use.requires_grad or not other.requires_grad else _slice(case, use.tensor, row, lengths)
            site = None if made is None else flow.log.calls[made].call_site
            if made is None or site in told:
                continue
            ordering = _ordering_of_as_many(case, other.tensor, row, made)
            if ordering is not None:
                told.add(site)
                yield made, ordering


_COMBINE = frozenset({"mul", "add", "sub"})
_DRAWS = frozenset({"randn", "rand", "randn_like", "rand_like", "normal", "bernoulli", "randint", "uniform"})
_MAX_MAKERS = 6
_MAX_TRIED = 4
"""Calls of one line: what it combines is taken in the same way each time."""
_BOUNDS = ("1.start", "1.stop")
_RESHAPES = frozenset({"squeeze", "unsqueeze", "flatten", "detach", "float"})


def _lengths_of_permutations(case: Case) -> set[int]:
    calls = case.dataflow.log.calls
    drawn = (call.outputs[0].tensor for call in calls if plain_name(call.function) == "randperm" and call.outputs)
    return {shape_of(case.dataflow, tensor)[0] for tensor in drawn}


def _combines(call: Call) -> bool:
    name = plain_name(call.function)
    return call.kind == "operation" and len(call.inputs) == _BOTH and (name in _COMBINE or name in LOSSES_BY_SAMPLE)


_BOTH = 2


def _slice(case: Case, tensor: int, row: int, lengths: set[int]) -> int | None:
    """The call that took a tensor as a slice of as many samples as a permutation has, which nothing had ordered."""
    flow = case.dataflow
    for maker, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) == "getitem" and any(type(call.scalars.get(each)) is int for each in _BOUNDS):
            given, shape = call.inputs[0].tensor, shape_of(flow, call.inputs[0].tensor)
            values = flow.values(call.outputs[0].tensor, row)
            if not shape or shape[0] not in lengths or (values is not None and values.minimum == values.maximum):
                return None
            above = flow.ancestors(given, maker)
            is_random = any(plain_name(flow.log.calls[each].function) in _DRAWS for each in above[-1:])
            return None if is_random or _orderings(case, above) else maker
        if plain_name(call.function) not in _PARTS | _RESHAPES:
            return None
    return None


def _ordering_of_as_many(case: Case, tensor: int, row: int, slice_row: int) -> int | None:
    """The call that ordered samples for a result: by a part, as long as the slice, of a permutation of all of them."""
    flow = case.dataflow
    taken = flow.log.calls[slice_row]
    count, size = (shape_of(flow, use.tensor)[0] for use in (taken.inputs[0], taken.outputs[0]))
    for ordering in _orderings(case, flow.ancestors(tensor, row, flow.step_before(row))).values():
        call = flow.log.calls[ordering]
        of_as_many = shape_of(flow, call.inputs[0].tensor)[:1] == (count,)
        if of_as_many and shape_of(flow, call.outputs[0].tensor)[:1] == (size,) and size < count:
            return ordering
    return None
