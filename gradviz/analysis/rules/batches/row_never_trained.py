"""GV846."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, line_outside_modules, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import TensorUse, ValueFacts


class RowNeverTrained(Rule):
    """A row of an embedding stands for something in all samples that a model makes, and was never trained.

    What it finds
    -------------
    The first or the last row of an embedding that is looked up without gradients for whole batches, as the empty label
    of guidance or the token that begins a sequence is, where training looks up all other rows, many times, and never
    this one. Rows that are declared as padding are left alone.

    Why it matters
    --------------
    The row keeps the random numbers that it began with. Guidance without a classifier subtracts what the model answers
    to the empty label: if labels were never left out in training, this answer means nothing.

    Example
    -------
    embed, model = torch.nn.Embedding(4, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*embed.parameters(), *model.parameters()], lr=0.1)
    for step in range(40):
        label = torch.randint(0, 3, (32,))
        loss = (model(embed(label)) - label[:, None]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        label = torch.randint(0, 3, (32,))
        given, free = model(embed(label)), model(embed(torch.full_like(label, 3)))
        print((free + 2 * (given - free)).mean())

    Instead
    -------
    embed, model = torch.nn.Embedding(4, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*embed.parameters(), *model.parameters()], lr=0.1)
    for step in range(40):
        label = torch.randint(0, 3, (32,))
        shown = torch.where(torch.rand(32) < 0.1, 3, label)
        loss = (model(embed(shown)) - label[:, None]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        label = torch.randint(0, 3, (32,))
        given, free = model(embed(label)), model(embed(torch.full_like(label, 3)))
        print((free + 2 * (given - free)).mean())
    """

    code = "GV846"
    name = "row_never_trained"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lookups = [
            _lookup(flow, row)
            for row, call in calls_named(flow, frozenset({"embedding"}))
            if [use.place for use in call.inputs[:2]] in _PLACES and call.kind == "operation" and call.raised is None
        ]
        tables: dict[int, list[_Lookup]] = defaultdict(list)
        for each in lookups:
            if each.is_trained:
                tables[each.table].append(each)
        for table, trained in tables.items():
            edge = _edge(trained, shape_of(flow, table)[0])
            if edge is None:
                continue
            lines = {each.line for each in trained}
            others = [
                each
                for each in lookups
                if each.is_without_gradient and (each.table == table or _is_of_copy(flow, each, table, lines))
            ]
            shown = [each for each in others if edge in each.wholes]
            if _MOST_OTHERS * len(shown) > len(others):
                yield self._finding(flow, trained[-1], shown[-1], edge)

    def _finding(self, flow: Dataflow, trained: _Lookup, shown: _Lookup, edge: int) -> Finding:
        location = location_of_line(line_outside_modules(flow, trained.row))
        used = location_of_line(line_outside_modules(flow, shown.row))
        table = flow.log.calls[trained.row].inputs[1].tensor
        names = names_of(flow, [table])
        return self.finding(
            f"row {edge} of {names[0] if names else 'an embedding'} is looked up for whole batches without gradients, "
            "and never in training",
            symptom="grad_wrong",
            why="it keeps the random numbers that it began with, and what the model makes of it means nothing",
            fix=f"give training some samples with this row: torch.where(torch.rand(len(label)) < 0.1, {edge}, label); "
            "or, if it begins sequences, put it in front of those of training",
            location=location,
            symptom_location=used if used != location else None,
            tensors=names,
            evidence={"row": edge},
        )


class _Lookup(Struct, frozen=True):
    row: int
    table: int
    line: tuple[str, int] | None
    """The user's own one."""
    values: ValueFacts | None
    """Of its indexes."""
    wholes: tuple[int, ...]
    """The numbers that all of the indexes are, or that all of a part of them are which was joined with others."""
    padding: object
    is_trained: bool
    is_without_gradient: bool


_PLACES = (["0", "1"], ["input", "weight"], ["0", "weight"])
_MIN_CALLS = 30
_TIMES_EACH = 10
"""How often as many lookups as there are rows are seen before a row that is never among them is told."""
_MOST_OTHERS = 3


def _lookup(flow: Dataflow, row: int) -> _Lookup:
    call = flow.log.calls[row]
    index, table = call.inputs[0], call.inputs[1]
    is_without = call.grad_mode != "enabled" and not table.has_grad_fn
    is_trained = not is_without and table.is_live_leaf and flow.has_step_after(row)
    line = flow.line_of(row)
    return _Lookup(
        row,
        table.tensor,
        None if line is None else (line.file, line.line),
        flow.values_of(index, row),
        tuple(_wholes(flow, index, row)) if is_without else (),
        call.scalars.get("padding_idx", call.scalars.get("2")),
        is_trained,
        is_without,
    )


def _is_of_copy(flow: Dataflow, lookup: _Lookup, table: int, lines: set[tuple[str, int] | None]) -> bool:
    """Whether a lookup is that of a copy of the network, as an average of its weights is."""
    return lookup.line in lines and shape_of(flow, lookup.table) == shape_of(flow, table)


def _wholes(flow: Dataflow, index: TensorUse, row: int) -> Iterator[int]:
    made = value_maker(flow, index.tensor, row)
    joined = made if made is not None and plain_name(made[1].function) == "cat" else None
    for use, before in [(index, row)] if joined is None else [(each, joined[0]) for each in joined[1].inputs]:
        values = flow.values_of(use, before)
        if values is not None and values.minimum is not None and values.minimum == values.maximum:
            yield int(values.minimum)


def _edge(trained: list[_Lookup], rows: int) -> int | None:
    """The first or the last row, if it is the only one that many lookups leave out, and is no padding."""
    known = [each.values for each in trained if each.values is not None]
    if len(known) < max(_MIN_CALLS, len(trained)) or sum(each.count for each in known) < _TIMES_EACH * rows:
        return None
    lowest = min(each.minimum for each in known if each.minimum is not None)
    highest = max(each.maximum for each in known if each.maximum is not None)
    edge = {(0, rows - 2): rows - 1, (1, rows - 1): 0}.get((int(lowest), int(highest)))
    paddings = {each.padding for each in trained} - {None, -1}
    return edge if edge is not None and edge not in paddings else None
