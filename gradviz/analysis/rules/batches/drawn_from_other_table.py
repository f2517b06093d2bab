"""GV833."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.drawn_indexes import bound_of, draws_of


class DrawnFromOtherTable(Rule):
    """Rows of one table are drawn from the range of another one.

    What it finds
    -------------
    Indexes that ``randint()`` draws below the number of rows of one embedding, and that look up another embedding with
    more rows, at every step, where data look up rows of it beyond that number. One table for two kinds, of which the
    first ones are drawn, is left alone, as far as each look-up takes one kind.

    Why it matters
    --------------
    Negatives of a ranking loss, or nodes of a graph, should be any of the rows. Like this only the first ones are ever
    drawn: nothing pushes the scores of the others down, and nothing raises.

    Example
    -------
    users, items = torch.nn.Embedding(8, 4), torch.nn.Embedding(30, 4)
    optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
    for step in range(4):
        user, liked = torch.randint(0, 8, (16,)), torch.arange(16) + 12
        other = torch.randint(0, 8, (16,))
        better = (users(user) * (items(liked) - items(other))).sum(1)
        loss = torch.nn.functional.softplus(-better).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    users, items = torch.nn.Embedding(8, 4), torch.nn.Embedding(30, 4)
    optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
    for step in range(4):
        user, liked = torch.randint(0, 8, (16,)), torch.arange(16) + 12
        other = torch.randint(0, 30, (16,))
        better = (users(user) * (items(liked) - items(other))).sum(1)
        loss = torch.nn.functional.softplus(-better).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV833"
    name = "drawn_from_other_table"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lookups = [each for row, call in calls_named(flow, _LOOKS_UP) if (each := _lookup(flow, row)) is not None]
        highest: dict[int, float] = defaultdict(float)
        drawn: dict[tuple[int | None, int], list[_Lookup]] = defaultdict(list)
        of_draws: dict[int, set[int]] = defaultdict(set)
        for each in lookups:
            highest[each.table] = max(highest[each.table], each.highest)
            if each.draw is not None:
                drawn[flow.log.calls[each.draw].call_site, each.table].append(each)
                of_draws[each.draw].add(each.table)
        rows = {table: shape_of(flow, table)[0] for table in highest}
        told = set[int | None]()
        for (line, table), found in drawn.items():
            below = {each.below for each in found}
            other = next((each for each in rows if each != table and {rows[each]} == below), None)
            is_beyond = all(each.below is not None and each.below <= highest[table] < rows[table] for each in found)
            steps = {flow.step_before(each.row) for each in found}
            if any(other in of_draws[each.draw] for each in found if each.draw is not None):
                continue  # both have rows for what is drawn, and the larger one has more behind them
            if other is not None and _is_joined(lookups, table, rows[other]):
                continue
            if other is not None and is_beyond and len(steps) >= _MIN_STEPS and line not in told:
                told.add(line)
                yield self._finding(flow, found[-1], other)

    def _finding(self, flow: Dataflow, found: _Lookup, other: int) -> Finding:
        location, used = two_lines(flow, found.draw or found.row, found.row)
        rows = shape_of(flow, found.table)[0]
        own, others = names_of(flow, [found.table]), names_of(flow, [other])
        of_own, of_other = ", ".join(own) or "an embedding", ", ".join(others) or "another embedding"
        return self.finding(
            f"the rows of {of_own}, {rows:,} in all, are drawn below {found.below:,}, the number of rows of {of_other}",
            symptom="grad_wrong",
            why="the rows behind that number are never drawn, though data look them up: as negatives they are never "
            "pushed away",
            fix=f"draw from all of its rows: torch.randint(0, {rows}, ...)",
            location=location,
            symptom_location=used,
            tensors=own,
        )


class _Lookup(Struct, frozen=True):
    row: int
    table: int
    lowest: float
    """Of its indexes."""
    highest: float
    draw: int | None = None
    """The call that drew its indexes, if one did."""
    below: int | None = None
    """The number below which it drew them."""


def _is_joined(lookups: Sequence[_Lookup], table: int, size: int) -> bool:
    """Whether data look up rows below a number at one time, and rows behind it at another: two tables in one."""
    of_data = [each for each in lookups if each.table == table and each.draw is None]
    are_split = all(each.highest < size or each.lowest >= size for each in of_data)
    return are_split and any(each.highest < size for each in of_data)


_LOOKS_UP = frozenset({"embedding"})
_MIN_STEPS = 3
_TWO = 2


def _lookup(flow: Dataflow, row: int) -> _Lookup | None:
    call = flow.log.calls[row]
    if len(call.inputs) < _TWO or not call.inputs[1].is_live_leaf or not flow.has_step_after(row):
        return None
    index, table = call.inputs[0].tensor, call.inputs[1].tensor
    values = flow.values(index, row)
    if values is None or values.maximum is None:
        return None
    draws = draws_of(flow, index, row)
    below = {bound_of(flow, draw) for draw in draws}
    if not draws or len(below) != 1 or any(_is_data(flow, draw) for draw in draws):
        return _Lookup(row, table, values.minimum or 0, values.maximum)
    return _Lookup(row, table, values.minimum or 0, values.maximum, min(draws), below.pop())


def _is_data(flow: Dataflow, draw: int) -> bool:
    """Whether what was drawn is also joined with others, or a target: then the draws are the data themselves."""
    drawn = flow.log.calls[draw].outputs[0].tensor if flow.log.calls[draw].outputs else None
    users = (flow.log.calls[user] for user in (() if drawn is None else flow.users(drawn, draw)))
    return any(
        plain_name(call.function) in _OF_DATA
        or (plain_name(call.function) == "getitem" and call.inputs[0].tensor == drawn)
        for call in users
    )


_OF_DATA = frozenset({"cat", "stack", "hstack", "cross_entropy", "nll_loss", "one_hot", "pad", "flip"})
