"""GV625."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import REDUCTIONS, axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.reduced_samples import is_reduced_to_samples
from gradviz.analysis.rules.bases.samples.rows_of_samples import (
    COUNTS_UP,
    have_a_source,
    is_no_table_of_pairs,
    joins_the_rows,
)
from gradviz.analysis.rules.bases.samples.spread_values import SPREAD_BY, spread_along_last
from gradviz.graph.model import CallSite


class BatchMeetsLastAxis(Rule):
    """One value for each sample is spread along the last axis of the samples.

    What it finds
    -------------
    ``table[t] * x`` where ``t`` has one number for each sample, drawn or loaded in this step and used for each sample
    elsewhere, and ``x`` happens to be as wide as the batch is long: shapes (16,) and (16, 3, 16, 16), also where the
    values are expanded first, or ``addcmul()``, ``lerp()`` or ``einsum()`` multiplies. With a square matrix, (16,) and
    (16, 16), only if ``t`` also goes into the rows of what is computed from ``x``; also for ``t``
    itself, for what a reduction over the last axis of the matrix made, and for what reductions over all other axes of a
    larger ``x`` made: ``x - x.mean((1, 2))``.

    Why it matters
    --------------
    Broadcasting aligns the last axes. The first column of all images gets the value of the first sample, and so on: no
    sample gets its own. With any other batch size the line would raise.

    Example
    -------
    table = torch.linspace(0.1, 0.9, 10)
    embed, model = torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*embed.parameters(), *model.parameters()], lr=0.1)
    for step in range(3):
        x, t = torch.randn(8, 4, 8), torch.randint(0, 10, (8,))
        noisy = table[t] * x
        loss = (model(noisy + embed(t)[:, None]) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    table = torch.linspace(0.1, 0.9, 10)
    embed, model = torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*embed.parameters(), *model.parameters()], lr=0.1)
    for step in range(3):
        x, t = torch.randn(8, 4, 8), torch.randint(0, 10, (8,))
        noisy = table[t][:, None, None] * x
        loss = (model(noisy + embed(t)[:, None]) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV625"
    name = "batch_meets_last_axis"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        lines = set[CallSite | None]()
        for row, call in calls_named(flow, SPREAD_BY):
            if call.call_site in told or not flow.has_step_after(row):
                continue
            for short, long in spread_along_last(flow, row, call):
                shape = shape_of(flow, long)
                if shape[0] != shape[-1] or shape[0] < 2:
                    continue
                chosen = None if len(shape) == 2 else _chosen_for_samples(case, row, short)
                chosen = _one_for_each_row(case, row, short, long) if chosen is None else chosen
                if chosen is not None and flow.line_of(row) not in lines:
                    told.add(call.call_site)
                    lines.add(flow.line_of(row))
                    yield self._finding(case, row, chosen, short, long)
                    break

    def _finding(self, case: Case, row: int, chosen: int, short: int, long: int) -> Finding:
        flow = case.dataflow
        call, shape = flow.log.calls[chosen], shape_of(flow, long)
        is_looked_up = plain_name(call.function) in _LOOKS_UP
        name = case.tensor_name(call.inputs[0].tensor if is_looked_up else call.outputs[0].tensor)
        made, location = location_of_call(flow, chosen), location_of_call(flow, row)
        where = at_line(made) if made != location else ""
        ones = ", 1" * (len(shape) - 1)
        return self.finding(
            f"the values of {name} for each sample{where}, {shape_of(flow, short)}, "
            f"are spread along the last axis of {shape}, not along the samples",
            symptom="grad_wrong",
            why="broadcasting aligns the last axes; it does not raise only because the batch is as long as that axis",
            fix=f"give them the axes of the other: .view(-1{ones})",
            location=location,
            symptom_location=made if made != location else None,
            evidence={"shapes": f"{shape_of(flow, short)}, {shape}"},
        )


_ELEMENTWISE = frozenset({
    "sqrt", "rsqrt", "sub", "rsub", "add", "mul", "div", "exp", "log", "log1p", "pow", "neg", "square", "to", "float",
    "reciprocal", "sigmoid", "clamp", "clamp_min", "clamp_max", "clip", "minimum", "maximum",
})  # fmt: skip
_COUNTS = COUNTS_UP | {"ones", "zeros", "full", "tensor"}
_LOOKS_UP = frozenset({"getitem", "index_select", "gather", "take"})
_MAX_FOLLOWED = 8


def _chosen_for_samples(case: Case, row: int, tensor: int) -> int | None:
    """The call that looked up one value for each sample, by numbers of this step that have other uses as well."""
    for maker, call in case.dataflow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if name in _LOOKS_UP and len(call.inputs) == 2:
            return maker if _is_of_samples(case, maker, call.inputs[1].tensor) else None
        if name not in _ELEMENTWISE:
            return None
    return None


def _one_for_each_row(case: Case, row: int, short: int, long: int) -> int | None:
    """The call that looked up or drew one value for each row of a tensor, if the rows of what is computed from the
    tensor are joined with the same values elsewhere. A table of all pairs has columns that belong to samples, too:
    it is left alone."""
    flow, shape = case.dataflow, shape_of(case.dataflow, long)
    since = flow.step_before(row)
    if not is_no_table_of_pairs(case, long, row, since):
        return None
    for tensor, made in _elementwise_above(case, row, short):
        call = flow.log.calls[made]
        name = plain_name(call.function)
        if name in _LOOKS_UP and len(call.inputs) == 2:
            index = call.inputs[1].tensor
            if not _is_new_integer(case, index, made):
                return None
            ends = (None, row)  # what is computed from the matrix, and what it was computed from
            return made if any(joins_the_rows(case, index, {made}, long, since, until=end) for end in ends) else None
        if name in REDUCTIONS and len(shape) == 2 and shape_of(flow, call.inputs[0].tensor) == shape:
            return (
                made if axis_of(call, 2) == 1 and have_a_source(case, call.inputs[0].tensor, made, long, row) else None
            )
        if len(shape) > 2 and is_reduced_to_samples(flow, made, shape, long, row):
            return made
        if len(shape) > 2 and name in _COUNTS:
            return None  # positions, of which a sequence may have as many as a batch has samples
        if name not in _ELEMENTWISE and made >= since > 0 and len(shape_of(flow, tensor)) == 1:
            return made if joins_the_rows(case, tensor, set(), long, since) else None
    return None


def _elementwise_above(case: Case, row: int, tensor: int) -> Iterator[tuple[int, int]]:
    """A tensor with the call that made it, and so on upwards as long as it was computed element by element."""
    flow = case.dataflow
    for _ in range(_MAX_FOLLOWED):
        made = flow.producers(tensor, row)
        if not made:
            return
        row = made[-1]
        yield tensor, row
        call = flow.log.calls[row]
        if plain_name(call.function) not in _ELEMENTWISE or not call.inputs:
            return
        tensor = call.inputs[0].tensor


def _is_new_integer(case: Case, index: int, row: int) -> bool:
    known = case.dataflow.log.tensors[index]
    is_new = known.first_seen is not None and known.first_seen >= case.dataflow.step_before(row)
    return known.facts.dtype == "int64" and is_new


def _is_of_samples(case: Case, row: int, index: int) -> bool:
    """Whether indexes came up in this step, and the program uses them for something else than looking up."""
    flow = case.dataflow
    if not _is_new_integer(case, index, row):
        return False
    return any(
        plain_name(flow.log.calls[user].function) not in _LOOKS_UP and flow.log.calls[user].outputs
        for user in flow.users(index)
        if user != flow.log.tensors[index].producer
    )
