"""GV790."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.lost_terms import is_number_with_history
from gradviz.analysis.dataflow.call_words import at_line, callers, class_of, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.lost_results import line_that_gets
from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.traversal import scopes_around


class OnlyLastCounts(Rule):
    """Of the terms that a loop computes for the loss, only the last one is in it.

    What it finds
    -------------
    One line that computes a term several times before a backward call, of which the loss uses the last one, and nothing
    ever reads those before: for other targets each time, as those of each time step or of each batch, or in other
    modules, as the balance of experts in each layer. Terms that compare with the same targets again are left alone: the
    last one may stand for all. So are terms of which each step takes another one.

    Why it matters
    --------------
    ``loss = ...`` in a loop replaces the term of the pass before, where ``loss = loss + ...`` would add to it. The
    other time steps, batches or layers train nothing, and nothing raises.

    Example
    -------
    cell, head = torch.nn.GRUCell(4, 6), torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x, targets, state = torch.randn(8, 5, 4), torch.randint(0, 3, (8, 5)), torch.zeros(8, 6)
        loss = 0.0
        for t in range(5):
            state = cell(x[:, t], state)
            loss = torch.nn.functional.cross_entropy(head(state), targets[:, t])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    cell, head = torch.nn.GRUCell(4, 6), torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x, targets, state = torch.randn(8, 5, 4), torch.randint(0, 3, (8, 5)), torch.zeros(8, 6)
        loss = 0.0
        for t in range(5):
            state = cell(x[:, t], state)
            loss = loss + torch.nn.functional.cross_entropy(head(state), targets[:, t])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV790"
    name = "only_last_counts"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            in_loss: set[int] | None = None
            for (site, _), rows in _terms(flow, backward).items():
                if site in told or not _is_only_last_read(flow, rows):
                    continue
                if in_loss is None:
                    in_loss = _rows_in_loss(flow, backward)
                if rows[-1] not in in_loss:
                    continue
                modules = _modules(flow, rows)
                is_other_each = modules is not None or _have_other_targets(flow, rows)
                if is_other_each and not _is_chosen(case, backward, site):
                    told.add(site)
                    yield self._finding(case, backward, rows, modules)

    def _finding(self, case: Case, backward: int, rows: list[int], owner: str | None) -> Finding:
        flow = case.dataflow
        made = location_of_call(flow, rows[-1])
        got = line_that_gets(case, rows[-1]) if owner is None else _line_in_class(flow, rows[-1], owner)
        location = got or made
        where = "" if made == location else at_line(made)
        return self.finding(
            f"the loss uses only the last of {len(rows):,} terms that one line computes{where}: each replaces the one "
            "before, which nothing has read",
            symptom="grad_wrong",
            why=f"what the {'time steps or batches' if owner is None else 'modules'} before the last one tell goes "
            "into no loss, and trains nothing",
            fix="add each term to those before it: total = total + term, from total = 0 before the loop",
            location=location,
            symptom_location=made if made != location else location_of_call(flow, backward),
            evidence={"terms": len(rows)},
        )


_MAX_ABOVE = 6
_BOTH = 2
_MAX_STEPS = 20


def _terms(flow: Dataflow, backward: int) -> dict[tuple[int | None, str], list[int]]:
    """By call site and function: the numbers with a history made since the last step, where there are several."""
    found: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for row in range(flow.step_before(backward), backward):
        call = flow.log.calls[row]
        if is_number_with_history(flow, call):
            found[call.call_site, call.function].append(row)
    return {key: rows for key, rows in found.items() if len(rows) >= _BOTH}


def _is_chosen(case: Case, backward: int, site: int | None) -> bool:
    """Whether another step of the same line takes a term before the last one: each step trains one of several, or shows
    them all."""
    flow = case.dataflow
    line = flow.log.calls[backward].call_site
    others = [row for row in case.histories.backward_calls if flow.log.calls[row].call_site == line and row != backward]
    return any(
        flow.users(flow.log.calls[row].outputs[0].tensor, after=row)
        for other in others[-_MAX_STEPS:]
        for (made_at, _), rows in _terms(flow, other).items()
        if made_at == site
        for row in rows[:-1]
    )


def _is_only_last_read(flow: Dataflow, rows: list[int]) -> bool:
    users = [bool(flow.users(flow.log.calls[row].outputs[0].tensor, after=row)) for row in rows]
    return users[-1] and not any(users[:-1])


def _rows_in_loss(flow: Dataflow, backward: int) -> set[int]:
    since = flow.step_before(backward)
    roots = flow.log.calls[backward].roots
    return {row for use in roots for row in flow.ancestors(use.tensor, backward, since)}


# -- what is not the same each time ------------------------------------------------------------------------------------


def _modules(flow: Dataflow, rows: list[int]) -> str | None:
    """The class of the innermost module around all of the calls, if each ran in another module inside of it."""
    scopes = flow.log.scopes
    around = [list(scopes_around(scopes, flow.log.calls[row].scope))[::-1] for row in rows]
    paths = {tuple(scopes[each].path for each in of_call) for of_call in around}
    if len(paths) != len(rows):
        return None
    common = [level[0] for level in zip(*around, strict=False) if len({scopes[each].path for each in level}) == 1]
    is_apart = len({of_call[len(common) : len(common) + 1] == [] for of_call in around}) == 1
    return scopes[common[-1]].class_name if common and is_apart else None


def _line_in_class(flow: Dataflow, row: int, owner: str) -> Location | None:
    lines = (line for line in callers(flow, row) if class_of(line).rpartition(".")[2] == owner)
    return location_of_line(next(lines, None))


def _have_other_targets(flow: Dataflow, rows: list[int]) -> bool:
    """Whether each term compares with something else than the one before."""
    compared = [_compared(flow, row) for row in rows]
    return None not in compared and len(set(compared)) == len(rows)


def _compared(flow: Dataflow, row: int) -> tuple[object, ...] | None:
    """What a term was compared with: the tensors without a gradient on the way up to what the model computed."""
    found: list[object] = []
    for _ in range(_MAX_ABOVE):
        call = flow.log.calls[row]
        if call.kind != "operation" or len(call.live_inputs) != 1:
            break
        found += [_origin(flow, use, row) for use in call.inputs if not use.requires_grad]
        made = flow.newest_producer(call.live_inputs[0].tensor, row)
        if made is None:
            break
        row = made
    return tuple(found) or None


def _origin(flow: Dataflow, use: TensorUse, row: int) -> object:
    """What tells a tensor from another one that was made of something else: how it was made, and of what."""
    made = flow.newest_producer(use.tensor, row)
    if made is None or made < flow.step_before(row):
        return use.tensor
    call = flow.log.calls[made]
    inputs = tuple(_made_of(flow, each, made) for each in call.inputs)
    return call.function, inputs, tuple(call.scalars.items()), _place(call, use.tensor)


def _made_of(flow: Dataflow, use: TensorUse, row: int) -> object:
    """The tensor, or how it was made, if that was just before: ``y[:, t].float()``."""
    made = flow.newest_producer(use.tensor, row)
    call = None if made is None or made < flow.step_before(row) else flow.log.calls[made]
    if call is None:
        return use.tensor
    return (
        call.function, tuple(each.tensor for each in call.inputs), tuple(call.scalars.items()), _place(call, use.tensor)
    )  # fmt: skip


def _place(call: Call, tensor: int) -> str:
    return next((use.place for use in call.outputs if use.tensor == tensor), "")
