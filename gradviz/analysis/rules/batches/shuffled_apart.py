"""GV623."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.ordered_alone import ordered_alone
from gradviz.analysis.rules.bases.batches.slices_in_order import orderings, slices_in_order
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.analysis.rules.bases.samples.drawn_indexes import bound_of, draws_of
from gradviz.analysis.rules.bases.samples.loaded_apart import are_loaded_apart, lines_of_loaders
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.names.arrays_shuffled_apart import arrays_shuffled_apart
from gradviz.analysis.rules.bases.sources.names.columns_sorted_apart import columns_sorted_apart
from gradviz.analysis.rules.bases.sources.own_files import own_files


class ShuffledApart(Rule):
    """Inputs and labels are shuffled by two different permutations, or only some of them are.

    What it finds
    -------------
    A loss that compares predictions with targets one by one, where the inputs were ordered by one ``randperm()`` and
    the targets by another one of the same length, and neither got the other's; or where a permutation of all samples
    orders the inputs alone, or the targets alone; or where the indexes of both were drawn by two calls of ``randint()``
    with one bound; also arrays of NumPy that were shuffled one after the other, and two loaders, of the inputs and of
    the targets, that shuffle both; and a function that takes the samples of a batch apart, sorts one column, and
    returns another one as it was. Also a slice of data in the order in
    which they are stored (``advantages[i : i + 64]``) that is combined, element by element, with what was computed from
    data that a permutation of all of them ordered, or that a loader shuffles. Random numbers are left alone: they
    belong to no sample.

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
        for row, call in calls_named(flow, LOSSES_BY_SAMPLE):
            if len(call.inputs) < _BOTH:
                continue
            if call.inputs[0].requires_grad and not call.inputs[1].requires_grad and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            apart = _apart(case, rows[0], *(use.tensor for use in flow.log.calls[rows[0]].inputs[:_BOTH]))
            drawn = None if apart is not None else _drawn_apart(case, rows[-1])
            alone = _ordered_alone(case, rows) if apart is drawn is None else None
            if apart is not None:
                yield self._finding(case, rows[0], *apart, are_drawn=False)
            elif drawn is not None:
                yield self._finding(case, rows[-1], *drawn, are_drawn=True)
            elif alone is not None:
                yield self._alone(case, rows[-1], alone)
            elif flow.log.loaders and are_loaded_apart(flow, rows[:_MOST_LOADED]):
                yield self._loaded(case, rows[-1])
        for slice_row, ordering in slices_in_order(case):
            yield self._in_order(case, slice_row, ordering)
        yield from self._arrays(case, {row for rows in lines.values() for row in rows})
        yield from self._columns(case)

    def _columns(self, case: Case) -> Iterator[Finding]:
        """Of samples that a function takes apart, as that of a loader which puts batches together."""
        for file, tree in own_files(case) if case.histories.steps else ():
            ran = LinesThatRan(case.dataflow, file)
            for found in columns_sorted_apart(tree):
                if ran.rows_in(*found.returned):
                    yield self.finding(
                        f"{found.name} is sorted here, and {found.other}, which is returned with it at line "
                        f"{found.returned[0]}, stays in the order of before",
                        symptom="grad_wrong",
                        why="each input meets the target of another sample, so there is nothing to learn but their "
                        "frequencies",
                        fix="sort the samples before they are taken apart: items = sorted(items, key=lambda item: "
                        "len(item[0]), reverse=True)",
                        location=Location(file, found.line),
                        symptom_location=Location(file, found.returned[0]),
                    )

    def _loaded(self, case: Case, row: int) -> Finding:
        loss, made = location_of_call(case.dataflow, row), lines_of_loaders(case)
        return self.finding(
            "one loader shuffles the inputs and another one the targets, each into an order of its own",
            symptom="grad_wrong",
            why="each input meets the target of another sample, so there is nothing to learn but their frequencies",
            fix="give both to one loader: DataLoader(TensorDataset(x, y), shuffle=True)",
            location=loss if made is None else made[1],
            symptom_location=None if made is None else made[0],
        )

    def _arrays(self, case: Case, losses: set[int]) -> Iterator[Finding]:
        """Of arrays that were shuffled before they came into torch."""
        for file, tree in own_files(case) if losses else ():
            ran = LinesThatRan(case.dataflow, file)
            for arrays in arrays_shuffled_apart(tree):
                met = (row for lines in arrays.compared for row in ran.rows_in(*lines) if row in losses)
                loss = next(met, None)
                if loss is not None:
                    yield self.finding(
                        f"{arrays.first} is shuffled at line {arrays.first_line} and {arrays.second} here, each into "
                        "an order of its own",
                        symptom="grad_wrong",
                        why="each input meets the target of another sample, so there is nothing to learn but their "
                        "frequencies",
                        fix=f"draw one order for both: order = rng.permutation(len({arrays.first})), "
                        f"{arrays.first}[order], {arrays.second}[order]",
                        location=Location(file, arrays.second_line),
                        symptom_location=Location(file, arrays.first_line),
                    )

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

    def _finding(self, case: Case, row: int, of_inputs: int, of_targets: int, *, are_drawn: bool) -> Finding:
        flow = case.dataflow
        first, second = location_of_call(flow, of_inputs), location_of_call(flow, of_targets)
        return self.finding(
            (
                "the inputs are taken at random indexes, and their targets at those of a second call of randint()"
                if are_drawn
                else "the inputs were shuffled by one permutation and their targets by another"
            )
            + (f", at line {first.line}" if first is not None and first != second else ""),
            symptom="grad_wrong",
            why="each input meets the target of another sample, so there is nothing to learn but their frequencies",
            fix="draw the indexes once, and index both with them: rows = torch.randint(n, (64,)); x[rows], y[rows]"
            if are_drawn
            else "draw one permutation, and index both with it: order = torch.randperm(n); x[order], y[order]",
            location=second,
            symptom_location=first if first != second else location_of_call(flow, row),
        )


def _ordered_alone(case: Case, rows: list[int]) -> int | None:
    """See `ordered_alone`. What a loader reads is known of its first batches only."""
    found = ordered_alone(case, rows[-1], orderings)
    return ordered_alone(case, rows[0], orderings, of_loader=True) if found is None else found


def _apart(case: Case, row: int, prediction: int, target: int) -> tuple[int, int] | None:
    """The calls that order the inputs and the targets, if they share no permutation."""
    flow = case.dataflow
    of_inputs = orderings(case, flow.ancestors(prediction, row))
    of_targets = orderings(case, flow.ancestors(target, row))
    only_inputs = [each for each in of_inputs.items() if each[0] not in of_targets]
    only_targets = [each for each in of_targets.items() if each[0] not in of_inputs]
    if not only_inputs or not only_targets:
        return None
    (one, first), (other, second) = only_inputs[-1], only_targets[-1]
    lengths = {shape_of(flow, flow.log.calls[each].outputs[0].tensor) for each in (one, other)}
    bases = {shape_of(flow, flow.log.calls[each].inputs[0].tensor)[:1] for each in (first, second)}
    return (first, second) if len(lengths) == 1 and bases == lengths else None


def _drawn_apart(case: Case, row: int) -> tuple[int, int] | None:
    """The calls that take inputs and targets by indexes of `randint()`, if they share no draw."""
    flow, since = case.dataflow, case.dataflow.step_before(row)
    prediction, target = (use.tensor for use in flow.log.calls[row].inputs[:_BOTH])
    of_inputs = _drawn_rows(flow, flow.ancestors(prediction, row, since))
    of_targets = _drawn_rows(flow, flow.ancestors(target, row, since))
    if not of_inputs or not of_targets or of_inputs.keys() & of_targets.keys():
        return None
    taken = [flow.log.calls[row] for row in (*of_inputs.values(), *of_targets.values())]
    if {_count(flow, call.outputs[0].tensor) for call in taken} != {_count(flow, prediction)}:
        return None  # Means over the samples belong to no sample.
    lengths = {_count(flow, call.inputs[0].tensor) for call in taken}
    is_one_bound = {bound_of(flow, draw) for draw in of_inputs.keys() | of_targets.keys()} == lengths
    return (max(of_inputs.values()), max(of_targets.values())) if len(lengths) == 1 and is_one_bound else None


def _drawn_rows(flow: Dataflow, rows: tuple[int, ...]) -> dict[int, int]:
    """By call of `randint()`: the call that takes samples of data by the indexes that it drew."""
    found: dict[int, int] = {}
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) in ("getitem", "index_select") and len(call.inputs) == _BOTH:
            data, index = call.inputs
            draws = [] if data.requires_grad else draws_of(flow, index.tensor, row)
            found |= dict.fromkeys(draws, row)
    return found


def _count(flow: Dataflow, tensor: int) -> int | None:
    return next(iter(shape_of(flow, tensor)), None)


_BOTH = 2
_MOST_LOADED = 8
"""Of the batches of a loader, only the first ones are noted sample by sample."""
