"""GV947."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines.lines_of_freezing import location_where_flagged


class NewRowsStayRandom(Rule):
    """A frozen embedding got rows for new tokens, which keep the random numbers that they began with.

    What it finds
    -------------
    An embedding that was made at random, whose first rows were filled with those of a smaller one and nothing else, and
    that no step ever trains, where a training looks up rows behind them. A single new row that only pads is left alone.

    Why it matters
    --------------
    With adapters, or when only a head is tuned, the embedding is frozen like all of the pretrained model. Old rows have
    learned what they mean, the new ones never do: each new token stays noise to the model.

    Example
    -------
    old, new, adapter = torch.nn.Embedding(20, 4), torch.nn.Embedding(22, 4), torch.nn.Linear(4, 3)
    with torch.no_grad():
        new.weight[:20] = old.weight
    new.weight.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in (new.weight, *adapter.parameters()) if p.requires_grad], lr=0.1)
    for step in range(3):
        ids = torch.tensor([3, 20, 8, 21, 14])
        loss = torch.nn.functional.cross_entropy(adapter(new(ids)), ids % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    old, new, adapter = torch.nn.Embedding(20, 4), torch.nn.Embedding(22, 4), torch.nn.Linear(4, 3)
    with torch.no_grad():
        new.weight[:20] = old.weight
    optimizer = torch.optim.SGD([p for p in (new.weight, *adapter.parameters()) if p.requires_grad], lr=0.1)
    for step in range(3):
        ids = torch.tensor([3, 20, 8, 21, 14])
        loss = torch.nn.functional.cross_entropy(adapter(new(ids)), ids % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV947"
    name = "new_rows_stay_random"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        tables: dict[int, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, frozenset({"embedding"})):
            if [use.place for use in call.inputs[:_TWO]] in _PLACES and call.grad_mode == "enabled":
                tables[call.inputs[1].tensor].append(row)
        for table, rows in tables.items():
            filled = _filled(flow, table, rows[0]) if _is_frozen(case, table) and flow.has_step_after(rows[0]) else None
            if filled is not None and _reads_behind(flow, rows, filled[1]):
                yield self._finding(case, table, *filled)

    def _finding(self, case: Case, table: int, filled: int, kept: int) -> Finding:
        count, names = shape_of(case.dataflow, table)[0], names_of(case.dataflow, [table])
        location, copied = location_where_flagged(case.histories, table), location_of_call(case.dataflow, filled)
        return self.finding(
            f"rows {kept:,} to {count - 1:,} of {names[0] if names else 'an embedding'} were made at random, are "
            "looked up in training, and are frozen",
            symptom="grad_none",
            why="only the first rows were copied from what was trained before: the new tokens stay noise to the model",
            fix="leave the embedding out of the freezing, and give it to the optimizer; or begin with what is known: "
            f"weight[{kept}:] = weight[:{kept}].mean(0)",
            location=location or copied,
            symptom_location=copied if copied != location else None,
            tensors=names,
            evidence={"rows": count, "copied": kept},
        )


_TWO = 2
_PLACES = (["0", "1"], ["input", "weight"], ["0", "weight"])


def _is_frozen(case: Case, table: int) -> bool:
    histories = case.histories
    is_parameter = case.dataflow.log.tensors[table].role == "parameter" and bool(histories.steps)
    return is_parameter and not histories.is_ever_stepped_live(table) and not histories.requires_grad_at_last(table)


def _filled(flow: Dataflow, table: int, before: int) -> tuple[int, int] | None:
    """The only call that wrote a part of a table after it was drawn at random, and how many rows it wrote, from 0 on:
    those of a smaller table."""
    count, *width = shape_of(flow, table)
    changes = [(row, flow.log.calls[row]) for row in flow.changes(table, -1, len(flow.log.calls))]
    drawn = [row for row, call in changes if plain_name(call.function) in _DRAWS]
    written = [(row, call) for row, call in changes if plain_name(call.function) not in _DRAWS]
    if not drawn or len(written) != 1 or not drawn[-1] < written[0][0] < before:
        return None
    row, call = written[0]
    sources = {each for use in call.inputs[1:] for each in flow.sharing_memory(use.tensor)}
    if not any(flow.log.tensors[each].role == "parameter" for each in sources):
        return None  # Vectors of a file: unknown words often get random ones, and all stay as they are.
    of_rows = [shape_of(flow, use.tensor) for use in call.inputs[1:]]
    if plain_name(call.function) == "setitem":
        part = call
    else:
        made = flow.newest_producer(call.inputs[0].tensor, row)
        part = call if made is None else flow.log.calls[made]
    kept = part.scalars.get("1.stop", part.scalars.get("1[0].stop"))
    is_from_start = not part.scalars.get("1.start") and not part.scalars.get("1[0].start")
    is_of_smaller = type(kept) is int and 0 < kept < count and of_rows == [(kept, *width)]
    return (row, kept) if type(kept) is int and is_of_smaller and is_from_start else None


_DRAWS = frozenset({"normal", "uniform", "xavier_uniform", "xavier_normal", "trunc_normal", "kaiming_uniform"})


def _reads_behind(flow: Dataflow, rows: list[int], kept: int) -> bool:
    """Whether ids of new rows are looked up, and not just one that pads."""
    highest, paddings = -1.0, set[object]()
    for row in rows:
        call = flow.log.calls[row]
        values = flow.values_of(call.inputs[0], row)
        highest = max(highest, -1 if values is None or values.maximum is None else values.maximum)
        paddings |= {each.value for each in call.padding.values()} | {call.scalars.get("padding_idx")}
    return highest >= kept and not (highest == kept and kept in paddings)
