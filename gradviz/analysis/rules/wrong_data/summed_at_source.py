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
from gradviz.analysis.rules.bases.samples.ends_of_edges import End, end_of_edges, indexes_of


class SummedAtSource(Rule):
    """Messages along the edges of a graph are added up at the node from which they come.

    What it finds
    -------------
    Rows that are chosen by one end of the edges (``x[src]``, ``index_select``), perhaps computed with one by one, and
    then added up by the same end (``index_add_``, ``scatter_add_``, ``scatter_reduce_``) into zeros, with nothing of
    the other end and no data of the edges in them, though another call uses the other end of as many edges.

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
        for row, call in calls_named(flow, _ADD_UP):
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


_ADD_UP = frozenset({"index_add", "scatter_add", "scatter_reduce", "index_reduce"})
_CHOOSE = frozenset({"getitem", "index_select", "gather", "take_along_dim", "embedding"})
_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
_MAX_CALLS = 40
_TWO = 2


def _ends_of_edges(flow: Dataflow) -> dict[tuple[int, int], dict[End, int]]:
    """By number of edges and step: all indexes with which calls choose rows or add them up, each with one tensor."""
    found: dict[tuple[int, int], dict[End, int]] = defaultdict(dict)
    for row, call in calls_named(flow, _ADD_UP | _CHOOSE):
        index = _index_of(flow, row)
        if index is not None and call.outputs:
            tensor, end = index
            found[shape_of(flow, tensor)[0], flow.step_before(row)].setdefault(end, tensor)
    return found


def _index_of(flow: Dataflow, row: int) -> tuple[int, End] | None:
    """The indexes of a call along its first axis, and which end of the edges they are."""
    call = flow.log.calls[row]
    has_axis = plain_name(call.function) not in ("getitem", "embedding")
    if has_axis and call.scalars.get("1", call.scalars.get("dim", 0)) != 0:
        return None
    index = indexes_of(flow, call)
    found = None if index is None else end_of_edges(flow, index, row)
    return found if found is not None and shape_of(flow, found[0]) else None


def _returned(flow: Dataflow, row: int, ends: dict[tuple[int, int], dict[End, int]]) -> _Returned | None:
    call, index = flow.log.calls[row], _index_of(flow, row)
    source = call.inputs[-1].tensor
    if index is None or len(call.inputs) <= _TWO or not _is_into_zeros(flow, row):
        return None
    edges, end = shape_of(flow, source)[:1], index[1]
    of_step = ends.get((edges[0], flow.step_before(row)), {}) if edges else {}
    other = next((tensor for each, tensor in of_step.items() if each != end), None)
    if other is None or shape_of(flow, index[0])[:1] != edges:
        return None
    chosen = _only_chosen_by(flow, source, row, end)
    one, two = (name_of(flow.log.tensors[each]) for each in (index[0], other))
    names = (one, two) if one and two else ("src", "dst")
    return None if chosen is None else _Returned(row, chosen, names, edges[0], bool(call.live_inputs))


def _is_into_zeros(flow: Dataflow, row: int) -> bool:
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in _ZEROS


def _only_chosen_by(flow: Dataflow, tensor: int, before: int, end: End) -> int | None:
    """The call that chose by an end what rows are computed from, if nothing else of each edge is in them."""
    waiting, seen, chosen = [(tensor, before)], set[int](), None
    edges = shape_of(flow, tensor)[:1]
    while waiting:
        each, row = waiting.pop()
        made = flow.newest_producer(each, row)
        if made is None or len(seen) > _MAX_CALLS:
            return None
        call = flow.log.calls[made]
        if made in seen:
            continue
        seen.add(made)
        index = _index_of(flow, made) if plain_name(call.function) in _CHOOSE and len(call.inputs) >= _TWO else None
        if index is not None:
            if index[1] != end:
                return None
            chosen = made
            continue
        of_edges = [use.tensor for use in call.inputs if shape_of(flow, use.tensor)[:1] == edges]
        if not of_edges:
            return None
        waiting += [(of_edge, made) for of_edge in of_edges]
    return chosen
