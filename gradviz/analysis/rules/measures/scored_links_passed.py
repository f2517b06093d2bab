"""GV998."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    calls_named,
    line_in_function_of,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class ScoredLinksPassed(Rule):
    """A graph network passes messages over the links that it should predict.

    What it finds
    -------------
    Links that are held out and scored, whose two ends are looked up in what a network computed for all nodes, where
    that was computed from all links: the adjacency matrix, or the index along which messages go, was made of the whole
    list, from which both the trained links and the scored ones were cut out. There are other pairs, drawn or without a
    link, that are scored in the same way: without such pairs, what is predicted is not whether a link exists.

    Why it matters
    --------------
    The two ends of a link that messages pass have heard of each other, those of other pairs have not. The score tells
    whether the network saw the link, not whether it can predict one: for new links it is worse.

    Example
    -------
    near = torch.triu(torch.rand(20, 20) < 0.3, diagonal=1)
    links = near.nonzero()
    links = links[torch.randperm(len(links))]
    test, train = links[:15], links[15:]
    x, layer = torch.randn(20, 6), torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    adjacency = torch.eye(20)
    adjacency[links[:, 0], links[:, 1]] = 1.0
    def score(z, pairs):
        return (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1)
    for step in range(3):
        z = adjacency @ layer(x)
        others = torch.randint(20, (30, 2))
        softplus = torch.nn.functional.softplus
        loss = softplus(-score(z, train)).mean() + softplus(score(z, others)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z = adjacency @ layer(x)
        print((score(z, test) > 0).float().mean())

    Instead
    -------
    near = torch.triu(torch.rand(20, 20) < 0.3, diagonal=1)
    links = near.nonzero()
    links = links[torch.randperm(len(links))]
    test, train = links[:15], links[15:]
    x, layer = torch.randn(20, 6), torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    adjacency = torch.eye(20)
    adjacency[train[:, 0], train[:, 1]] = 1.0
    def score(z, pairs):
        return (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1)
    for step in range(3):
        z = adjacency @ layer(x)
        others = torch.randint(20, (30, 2))
        softplus = torch.nn.functional.softplus
        loss = softplus(-score(z, train)).mean() + softplus(score(z, others)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z = adjacency @ layer(x)
        print((score(z, test) > 0).float().mean())
    """

    code = "GV998"
    name = "scored_links_passed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        trained, scored = _look_ups(flow) if case.histories.reached_by else ([], [])
        by_whole: dict[int, list[tuple[_LookUp, _Branch]]] = defaultdict(list)
        for each in scored:
            for branch in each.branches:
                if branch.wholes:
                    by_whole[branch.wholes[-1]].append((each, branch))
        lists = [{*branch.own, *branch.wholes} for each in (*trained, *scored) for branch in each.branches]
        for whole, found in by_whole.items():
            if all(whole in each for each in lists):
                continue  # No other pairs are scored: what is told of a link is not whether it exists.
            # Both ends of a link are looked up.
            if len({branch.own[0] for _, branch in found}) < _BOTH and len(shape_of(flow, found[0][1].own[0])) < _BOTH:
                continue
            for each, branch in found:
                passed = _passed(case, each, branch, trained)
                if passed is not None:
                    yield self._finding(flow, each, branch, *passed)
                    return

    def _finding(self, flow: Dataflow, scored: _LookUp, branch: _Branch, row: int, whole: int) -> Finding:
        location = location_of_line(line_in_function_of(flow, row, scored.row))
        line = location_of_line(line_in_function_of(flow, scored.row, row))
        line = line if line != location else None
        count, of = (max(shape_of(flow, each), default=0) for each in (branch.own[-1], branch.wholes[0]))
        return self.finding(
            f"messages pass over all {of:,} links, and {count:,} of them are held out and scored{at_line(line)}: the "
            "network sees each link that it should predict",
            symptom="none",
            why="the ends of such a link have heard of each other: the score is better than it is for new links",
            fix="make the adjacency, or the index of the messages, of the links for training only",
            location=location,
            symptom_location=line,
            evidence={"links": of, "scored": count},
        )


_TABLES = frozenset({"getitem", "index_select", "embedding", "gather"})
_CUTS = frozenset({"getitem", "index_select", "split", "chunk", "narrow", "select", "unbind", "masked_select", "iter"})
_JOINS = frozenset({"cat", "stack", "concat", "hstack", "vstack"})
_SHAPES = frozenset({
    "t", "T", "mT", "transpose", "permute", "contiguous", "to", "long", "clone", "flatten", "view", "reshape",
    "unsqueeze", "squeeze", "flip", "nonzero", "detach", "cpu", "cuda",
})  # fmt: skip
_COUNTS = frozenset({"max", "min", "amax", "amin", "numel", "unique"})
_COMPARE = frozenset({"isin", "eq", "ne"})
_WRITE = frozenset({"setitem", "index_put"})
_BOTH = 2
_MAX_STEPS = 30


class _Branch(Struct, frozen=True):
    """One of the lists of numbers that an index is made of."""

    own: tuple[int, ...]
    """The index, and what it was made of, up to what was cut out of a longer list."""
    wholes: tuple[int, ...]
    """This list, and what it was made of."""
    cut: int = -1
    """The call that cut it; -1 if none did."""


class _LookUp(Struct, frozen=True):
    """Rows of a table that an index names."""

    row: int
    table: int
    branches: tuple[_Branch, ...]


def _look_ups(flow: Dataflow) -> tuple[list[_LookUp], list[_LookUp]]:
    """Rows that are looked up in a computed table: those with a gradient, and those without; one for each line."""
    live, scored = dict[int | None, tuple[int, Call]](), dict[int | None, tuple[int, Call]]()
    for row, call in calls_named(flow, _TABLES):
        index = [use for use in call.inputs[1:] if flow.log.tensors[use.tensor].facts.dtype == "int64"]
        if not index or not call.outputs or not flow.is_made(call.inputs[0].tensor, row):
            continue
        if not flow.log.tensors[call.outputs[0].tensor].facts.dtype.startswith(("float", "bfloat")):
            continue
        if call.inputs[0].has_grad_fn:
            live.setdefault(call.call_site, (row, call))
        elif not call.outputs[0].requires_grad:
            scored[call.call_site] = (row, call)
    found = [_of(flow, *each) for each in live.values()] if scored else []
    return found, [_of(flow, *each) for each in scored.values()] if found else []


def _of(flow: Dataflow, row: int, call: Call) -> _LookUp:
    index = (use.tensor for use in call.inputs[1:] if flow.log.tensors[use.tensor].facts.dtype == "int64")
    return _LookUp(row, call.inputs[0].tensor, tuple(branch for each in index for branch in _branches(flow, each, row)))


def _branches(flow: Dataflow, index: int, row: int) -> Iterator[_Branch]:
    waiting: list[tuple[int, int, tuple[int, ...], tuple[int, ...], int]] = [(index, row, (index,), (), -1)]
    for steps, (tensor, before, own, wholes, cut) in enumerate(waiting):
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if (
            made is None
            or call is None
            or not call.inputs
            or steps > _MAX_STEPS
            or name not in _CUTS | _JOINS | _SHAPES
        ):
            yield _Branch(own, wholes, cut)
            continue
        for use in call.inputs if name in _JOINS else call.inputs[:1]:
            if wholes or _is_cut(flow, call, tensor):
                waiting.append((use.tensor, made, own, (*wholes, use.tensor), made if cut < 0 else cut))
            else:
                waiting.append((use.tensor, made, (*own, use.tensor), wholes, cut))


def _trained(flow: Dataflow, branch: _Branch) -> tuple[int, ...]:
    """The links that are trained: those of one step, and the list of which each step takes some."""
    if branch.cut < 0:
        return branch.own
    call = flow.log.calls[branch.cut]
    again = (row for row in flow.rows_of_function(call.function) if row > branch.cut)
    is_of_each_step = any(flow.log.calls[row].call_site == call.call_site for row in again)
    return (*branch.own, *branch.wholes[:1]) if is_of_each_step else branch.own


def _is_cut(flow: Dataflow, call: Call, result: int) -> bool:
    """Whether a call takes some rows out of a list."""
    sizes = [max(shape_of(flow, each), default=0) for each in (call.inputs[0].tensor, result)]
    return plain_name(call.function) in _CUTS and sizes[1] < sizes[0]


def _passed(case: Case, scored: _LookUp, branch: _Branch, trained: list[_LookUp]) -> tuple[int, int] | None:
    """The call that makes of all links what a table is computed from, and the list of all of them; None if the links
    that are scored were taken out, or no trained layer computed the table."""
    flow = case.dataflow
    above = frozenset(flow.ancestors(scored.table, scored.row))
    calls = [flow.log.calls[each] for each in above]
    if not any(use.tensor in case.histories.reached for call in calls for use in call.inputs):
        return None
    # Of the look-ups that are trained, those that pass messages tell nothing of what is scored.
    lines = {location_of_call(flow, each) for each in above}
    known = {
        tensor
        for each in trained
        if location_of_call(flow, each.row) not in lines
        for other in each.branches
        for tensor in _trained(flow, other)
    }
    if not known.isdisjoint({*branch.own, branch.wholes[0]}):
        return None
    own = (_first_use(flow, each, above) for each in branch.own)
    if any(row is not None and _takes_out(flow.log.calls[row]) for row in own):
        return None
    # What is computed of all pairs to choose the links among them passes no messages.
    passing = above.difference(flow.ancestors(branch.own[-1], scored.row))
    found = ((_first_use(flow, whole, passing), whole) for whole in branch.wholes)
    return next(((row, whole) for row, whole in found if row is not None), None)


def _takes_out(call: Call) -> bool:
    """Whether a call may take links out of a matrix: it writes zeros at their places, or compares them with others."""
    name = plain_name(call.function)
    return name in _COMPARE or (name in _WRITE and not any(value == 1 for value in call.scalars.values()))


def _first_use(flow: Dataflow, whole: int, above: frozenset[int]) -> int | None:
    """The call that computes with all of a list, among those that computed a table."""
    waiting = [whole]
    for tensor in waiting:
        for user in flow.users(tensor):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if user not in above or name in _COUNTS or not call.outputs:
                continue
            is_list = call.inputs[0].tensor == tensor or name in _JOINS
            if is_list and name in _CUTS | _JOINS | _SHAPES:
                results = [use.tensor for use in call.outputs if not _is_cut(flow, call, use.tensor)]
                waiting += [each for each in results if each not in waiting and len(waiting) < _MAX_STEPS]
            else:
                return user
    return None
