"""GV794."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.ends_of_edges import ADD_UP, CHOOSE, WHOLE, End, chosen_by, index_of_rows
from gradviz.graph.call_log import Call, TensorUse


class SummedAtSource(Rule):
    """Messages along the edges of a graph are added up at the node from which they come.

    What it finds
    -------------
    Rows that are chosen by one end of the edges (``x[src]``, ``index_select``), perhaps computed with one by one, and
    then added up by the same end (``index_add_``, ``scatter_add_``, ``scatter_reduce_``) into zeros, with nothing of
    the other end and no data of the edges in them, though another call uses the other end of as many edges, or the
    indexes are one row of a table of two. A sum from which that of the neighbours is subtracted, ``D x - A x``, is left
    alone.

    Why it matters
    --------------
    A node should get what its neighbours send. Like this it gets its own row back, once for each of its edges: the
    network does not see the graph, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    src, dst = torch.randint(0, 9, (2, 40))
    for step in range(3):
        x = model(torch.randn(9, 4))
        count = torch.zeros(9).index_add_(0, dst, torch.ones(40)).clamp(min=1)
        gathered = torch.zeros(9, 2).index_add_(0, src, x[src]) / count[:, None]
        loss = (x + gathered).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    src, dst = torch.randint(0, 9, (2, 40))
    for step in range(3):
        x = model(torch.randn(9, 4))
        count = torch.zeros(9).index_add_(0, dst, torch.ones(40)).clamp(min=1)
        gathered = torch.zeros(9, 2).index_add_(0, dst, x[src]) / count[:, None]
        loss = (x + gathered).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV794"
    name = "summed_at_source"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Returned | None]] = defaultdict(list)
        ends = _ends_of_edges(flow)
        for row, call in calls_named(flow, ADD_UP):
            if call.call_site is not None and flow.has_step_after(row):
                lines[call.call_site].append(_returned(flow, row, ends))
        for found in lines.values():
            known = [each for each in found if each is not None]
            if known and len(known) == len(found) and any(each.is_trained for each in known):
                yield self._finding(flow, known[-1])

    def _finding(self, flow: Dataflow, found: _Returned) -> Finding:
        location, chosen = two_lines(flow, found.added, found.chosen)
        end, other = found.names
        return self.finding(
            f"the rows that {end} chooses are added up at {end} again: along {found.edges:,} edges, each node gets its "
            "own row back",
            symptom="grad_wrong",
            why="a node should get the rows of its neighbours, which stand at the other ends of its edges",
            fix=f"add the rows up at the other end: index_add_(0, {other}, x[{end}])",
            location=location,
            symptom_location=chosen,
            evidence={"edges": found.edges},
        )


class _Returned(Struct, frozen=True):
    added: int
    """The call that adds up."""
    chosen: int
    """The call that chose the rows."""
    names: tuple[str, str]
    """Of the indexes that both use, and of those of the other end."""
    edges: int
    is_trained: bool
    """Whether a gradient goes through it."""


_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
_MEET = frozenset({"add", "sub", "rsub"})
_SCALE = frozenset({"mul", "div", "neg"})
_MAX_CALLS = 40
_TWO = 2


def _ends_of_edges(flow: Dataflow) -> dict[tuple[int, int], dict[End, int]]:
    """By number of edges and step: all indexes with which calls choose rows or add them up, each with one tensor."""
    found: dict[tuple[int, int], dict[End, int]] = defaultdict(dict)
    for row, call in calls_named(flow, ADD_UP | CHOOSE):
        index = index_of_rows(flow, row)
        if index is not None and call.outputs:
            tensor, end = index
            found[shape_of(flow, tensor)[0], flow.step_before(row)].setdefault(end, tensor)
    return found


def _returned(flow: Dataflow, row: int, ends: dict[tuple[int, int], dict[End, int]]) -> _Returned | None:
    call, index = flow.log.calls[row], index_of_rows(flow, row)
    source = call.inputs[-1].tensor
    if index is None or len(call.inputs) <= _TWO or not _is_into_zeros(flow, row):
        return None
    edges, end = shape_of(flow, source)[:1], index[1]
    of_step = ends.get((edges[0], flow.step_before(row)), {}) if edges else {}
    other = next((tensor for each, tensor in of_step.items() if each != end), None)
    if (other is None and not _is_half_of_edges(flow, end, edges)) or shape_of(flow, index[0])[:1] != edges:
        return None
    chosen, is_all = chosen_by(flow, source, row)
    if not is_all or set(chosen) != {end} or _is_degree_of_difference(flow, row, end):
        return None
    one, two = (None if each is None else name_of(flow.log.tensors[each]) for each in (index[0], other))
    names = (one, two) if one and two else ("src", "dst")
    return _Returned(row, chosen[end], names, edges[0], bool(call.live_inputs))


def _is_half_of_edges(flow: Dataflow, end: End, edges: tuple[int, ...]) -> bool:
    """Whether an end is one row of a table of edges with two, so that nothing reads the other one."""
    return end[1] != WHOLE and shape_of(flow, end[0]) == (_TWO, *edges)


def _is_into_zeros(flow: Dataflow, row: int) -> bool:
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in _ZEROS


def _is_degree_of_difference(flow: Dataflow, row: int, end: End) -> bool:
    """Whether the sum meets one of what the neighbours of the same nodes have, as in the Laplacian: ``D x - A x``."""
    waiting, count = [(use.tensor, row) for use in flow.log.calls[row].outputs], 0
    while waiting and count < _MAX_CALLS:
        count += 1
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            others = [use.tensor for use in call.inputs if use.tensor != given]
            if plain_name(call.function) in _MEET and any(_is_received(flow, other, user, end) for other in others):
                return True
            if plain_name(call.function) in _MEET | _SCALE:
                waiting += [(use.tensor, user) for use in call.outputs]
    return False


def _is_received(flow: Dataflow, tensor: int, before: int, end: End) -> bool:
    """Whether a tensor is a sum at an end of rows that the other end chose."""
    for row, call in flow.makers_above(tensor, before, _MAX_CALLS, _scaled):
        if plain_name(call.function) in ADD_UP:
            index, added = index_of_rows(flow, row), call.inputs[-1].tensor
            if index is not None and index[1] == end and any(each != end for each in chosen_by(flow, added, row)[0]):
                return True
    return False


def _scaled(call: Call) -> tuple[TensorUse, ...]:
    return call.inputs if plain_name(call.function) in _SCALE else ()
