"""GV625."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import REDUCTIONS, axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.reduced_samples import is_reduced_to_samples
from gradviz.analysis.rules.bases.samples.spread_values import SPREAD_BY, SPREADS, spread_along_last
from gradviz.graph.call_log import Call
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
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) not in SPREAD_BY or call.call_site in told or not flow.has_step_after(row):
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


_ELEMENTWISE = frozenset(
    {"sqrt", "rsqrt", "sub", "add", "mul", "div", "exp", "log", "pow", "neg", "square", "to", "float"}
)
_COUNTS = frozenset({"arange", "linspace", "logspace", "ones", "zeros", "full", "tensor"})
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
    if not _is_no_table_of_pairs(case, long, row, since):
        return None
    for tensor, made in _elementwise_above(case, row, short):
        call = flow.log.calls[made]
        name = plain_name(call.function)
        if name in _LOOKS_UP and len(call.inputs) == 2:
            index = call.inputs[1].tensor
            is_new = _is_new_integer(case, index, made)
            return made if is_new and _joins_the_rows(case, index, {made}, long, since) else None
        if name in REDUCTIONS and len(shape) == 2 and shape_of(flow, call.inputs[0].tensor) == shape:
            return (
                made if axis_of(call, 2) == 1 and _have_a_source(case, call.inputs[0].tensor, made, long, row) else None
            )
        if len(shape) > 2 and is_reduced_to_samples(flow, made, shape, long, row):
            return made
        if len(shape) > 2 and name in _COUNTS:
            return None  # positions, of which a sequence may have as many as a batch has samples
        if name not in _ELEMENTWISE and made >= since > 0 and len(shape_of(flow, tensor)) == 1:
            return made if _joins_the_rows(case, tensor, set(), long, since) else None
    return None


def _have_a_source(case: Case, one: int, before: int, other: int, row: int) -> bool:
    """Whether two matrices with samples as rows, made by a layer, were computed from the same one of their shape.

    A table of pairs, such as an adjacency matrix with its degrees, has samples on both axes.
    """
    flow, since = case.dataflow, case.dataflow.step_before(row)
    shape, sources, has_layer = shape_of(flow, one), list[set[int]](), False
    for tensor, until in ((one, before), (other, row)):
        above = flow.ancestors(tensor, until, since)
        made = {use.tensor for each in above for use in flow.log.calls[each].outputs}
        sources.append({tensor} | {each for each in made if shape_of(flow, each) == shape})
        has_layer |= any(plain_name(flow.log.calls[each].function) in ("linear", "addmm") for each in above)
    return has_layer and not sources[0].isdisjoint(sources[1])


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


def _is_no_table_of_pairs(case: Case, tensor: int, row: int, since: int) -> bool:
    """Whether no product of two sets of samples, and no two axes put against each other, made the matrix."""
    flow = case.dataflow
    shape = shape_of(flow, tensor)
    for each in flow.ancestors(tensor, row, since):
        call = flow.log.calls[each]
        if shape not in [shape_of(flow, use.tensor) for use in call.outputs]:
            continue
        name, matrices = plain_name(call.function), [use for use in call.inputs if shape_of(flow, use.tensor) != shape]
        is_by_layer = any(_is_of_parameter(case, use.tensor, each) for use in call.inputs)
        is_by_layer = is_by_layer or sum(_is_constant(flow, use.tensor, since) for use in call.inputs) == 1
        if name in _PAIRS and not is_by_layer:
            return False
        is_joined = len(call.inputs) > 1 and len(matrices) == len(call.inputs)
        if is_joined and name not in _PAIRS | _LOOKS_UP | _LAYERS:
            return False
    return True


def _is_constant(flow: Dataflow, tensor: int, since: int) -> bool:
    """Whether a tensor is from before this step, as the matrix of a linear map of data is."""
    known = flow.log.tensors[tensor]
    return (
        known.first_seen is not None
        and known.first_seen < since
        and not any(row >= since for row in flow.producers(tensor))
    )


def _is_of_parameter(case: Case, tensor: int, row: int) -> bool:
    flow = case.dataflow
    if flow.log.tensors[tensor].role == "parameter":
        return True
    made = flow.producers(tensor, row)
    above = flow.log.calls[made[-1]].inputs if made else ()
    return len(above) == 1 and flow.log.tensors[above[0].tensor].role == "parameter"


def _joins_the_rows(case: Case, values: int, but: set[int], long: int, since: int) -> bool:
    """Whether what is computed from one value for each sample, in another way, meets what is computed from the matrix
    in a call that takes both row by row."""
    flow = case.dataflow
    count = shape_of(flow, values)[:1]
    until = next((row for row in flow.rows_of_kind("step") if row > since), len(flow.log.calls))
    ours, theirs = {values}, {long}
    for row in range(max(since, 0), until):
        call = flow.log.calls[row]
        if row in but or call.kind != "operation" or not call.outputs:
            continue
        mine = [use for use in call.inputs if use.tensor in ours]
        others = [use for use in call.inputs if use.tensor in theirs and use.tensor not in ours]
        made = {use.tensor for use in call.outputs}
        if mine and others:
            shapes = [shape_of(flow, use.tensor) for use in (*mine, *others)]
            # A row of the matrix and a row of what belongs to the sample: (16, 16) and (16, 8) or (16, 1).
            if plain_name(call.function) in _JOINS and all(len(each) > 1 and each[:1] == count for each in shapes):
                return True
        elif mine and all(shape_of(flow, each)[:1] == count for each in made) and _goes_row_by_row(case, call, ours):
            ours |= made
        theirs |= made if others else set()
    return False


def _goes_row_by_row(case: Case, call: Call, ours: set[int]) -> bool:
    """False where one value for each sample meets a matrix: along which axis is the question. A call that spreads the
    values over a matrix spreads them along its last axis."""
    flow = case.dataflow
    if plain_name(call.function) in SPREADS and len(shape_of(flow, call.inputs[0].tensor)) == 1:
        return False
    rows = min(len(shape_of(flow, use.tensor)) for use in call.inputs if use.tensor in ours)
    beside = (use.tensor for use in call.inputs if use.tensor not in ours)
    return rows > 1 or all(
        len(shape_of(flow, each)) <= 1 or flow.log.tensors[each].role == "parameter" for each in beside
    )


_JOINS = frozenset({"cat", "concat", "concatenate", "add", "sub", "mul", "hstack", "addcmul", "lerp"})
_PAIRS = frozenset({"matmul", "mm", "bmm", "einsum", "cdist", "cosine_similarity", "outer", "tensordot", "inner"})
_LAYERS = frozenset({"linear", "addmm", "embedding", "cat", "stack", "where"})


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
