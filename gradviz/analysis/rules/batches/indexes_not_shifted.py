"""GV791."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class IndexesNotShifted(Rule):
    """Several graphs are joined to one batch, and their edges still count from the first node of each.

    What it finds
    -------------
    Rows of several samples that are joined by ``cat()``, and indexes of them that are joined likewise and choose among
    all rows or are added up into them, where the indexes of each sample are numbers of its own rows, from the first
    ones to the last ones: also in the whole batch, none is beyond the size of a single sample. At least three samples,
    in each batch; some of them may have no indexes.

    Why it matters
    --------------
    All edges then join the first rows of the batch: they get the messages of all graphs, and the nodes of the other
    graphs get none. The shapes are right, so that nothing raises.

    Example
    -------
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    layer = torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(3):
        nodes = torch.cat([torch.randn(4, 5) for graph in range(6)])
        source, target = torch.cat([edges for graph in range(6)], dim=1)
        messages = torch.zeros(24, 5).index_add(0, target, nodes[source])
        loss = layer(nodes + messages).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    layer = torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(3):
        nodes = torch.cat([torch.randn(4, 5) for graph in range(6)])
        source, target = torch.cat([edges + 4 * graph for graph in range(6)], dim=1)
        messages = torch.zeros(24, 5).index_add(0, target, nodes[source])
        loss = layer(nodes + messages).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV791"
    name = "indexes_not_shifted"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Joined | None]] = defaultdict(list)
        users: dict[int | None, int] = {}
        joins = _joins(flow)
        seen = set[int]()
        for row, call in calls_named(flow, _CHOOSE):
            joined = _joined_indexes(flow, row, call) if flow.has_step_after(row) else None
            if joined is None or joined in seen:
                continue
            seen.add(joined)
            site = flow.log.calls[joined].call_site
            users.setdefault(site, row)
            lines[site].append(_not_shifted(flow, joined, _rows_of(flow, row, call), joins))
        for site, found in lines.items():
            known = [each for each in found if each is not None]
            if known and len(known) == len(found):
                yield self._finding(flow, known[-1], users[site])

    def _finding(self, flow: Dataflow, joined: _Joined, user: int) -> Finding:
        location, used = two_lines(flow, joined.call, user)
        return self.finding(
            f"the indexes of {joined.samples:,} samples are joined as they are, and choose among the {joined.rows:,} "
            f"rows of all{at_line(used)}: each sample counts from 0, so that none is beyond row {joined.highest:,}",
            symptom="grad_wrong",
            why="the rows of the second sample begin where those of the first one end; like this, the edges of all "
            "samples join the rows of the first ones",
            fix="add to the indexes of each sample the number of rows before it: edges + offset, and then "
            "offset += len(nodes)",
            location=location,
            symptom_location=used,
            evidence={"samples": joined.samples, "rows": joined.rows, "highest": joined.highest},
        )


class _Joined(Struct, frozen=True):
    call: int
    """The call that joined the indexes."""
    samples: int
    rows: int
    """Of all samples."""
    highest: int
    """The highest index."""


_CHOOSE = frozenset({"getitem", "index_select", "index_add", "scatter_add", "scatter_reduce", "gather", "index_reduce"})
_JOIN = frozenset({"cat", "hstack", "vstack"})
_KEEP = frozenset({
    "unbind", "getitem", "chunk", "split", "select", "long", "to", "view", "reshape", "contiguous", "clone", "t", "T",
    "flatten", "unsqueeze", "squeeze", "expand", "expand_as", "int", "transpose", "cuda", "cpu", "pin_memory",
})  # fmt: skip
_MAX_KEPT = 6
_MIN_SAMPLES = 3
_BOTH = 2
_MOST = 2 / 3


_Joins = dict[tuple[int, int, int], list[tuple[int, tuple[int, ...]]]]


def _joins(flow: Dataflow) -> _Joins:
    """The calls that joined rows, with how many rows each part has; by the step before, and the numbers of parts and of
    rows."""
    found: _Joins = defaultdict(list)
    for row, call in calls_named(flow, _JOIN):
        shape = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
        parts = [shape_of(flow, use.tensor) for use in call.inputs]
        if len(parts) >= _MIN_SAMPLES and shape and all(parts) and sum(part[0] for part in parts) == shape[0]:
            found[flow.step_before(row), len(parts), shape[0]].append((row, tuple(part[0] for part in parts)))
    return found


def _joined_indexes(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that joined the indexes with which a call chooses rows, as they are."""
    if len(call.inputs) < _BOTH or flow.log.tensors[call.inputs[0].tensor].role == "parameter":
        return None  # of a table with a row for each position, rows of several samples are looked up
    index = next((use.tensor for use in call.inputs[1:] if _is_of_integers(flow, use.tensor)), None)
    for _ in range(_MAX_KEPT if index is not None else 0):
        made = flow.newest_producer(index, row)  # type: ignore[arg-type]
        if made is None:
            return None
        maker = flow.log.calls[made]
        name = plain_name(maker.function)
        if name in _JOIN:
            return made if len(maker.inputs) >= _MIN_SAMPLES else None
        if name not in _KEEP or len(maker.inputs) != 1:
            return None
        row, index = made, maker.inputs[0].tensor
    return None


def _is_of_integers(flow: Dataflow, tensor: int) -> bool:
    return flow.log.tensors[tensor].facts.dtype in ("int64", "int32")


def _rows_of(flow: Dataflow, row: int, call: Call) -> int:
    shape = shape_of(flow, call.inputs[0].tensor)
    return shape[0] if shape else 0


def _not_shifted(flow: Dataflow, joined: int, rows: int, joins: _Joins) -> _Joined | None:
    """Whether joined indexes count the rows of each part of other joined rows, and not all of them."""
    call = flow.log.calls[joined]
    ranges = [_range(flow, use, joined) for use in call.inputs]
    known = [each for each in ranges if each is not None]
    if len(known) < len(ranges):
        return None
    since = flow.step_before(joined)
    for row, sizes in joins.get((since, len(known), rows), ()):
        if row != joined and _count_own_rows(known, sizes):
            return _Joined(joined, len(sizes), rows, max(end for _, end in known) - 1)
    return None


def _range(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, int] | None:
    """The first of some indexes and the one behind the last; of no indexes, it is empty."""
    if 0 in shape_of(flow, use.tensor):
        return 0, 0
    values = flow.values_of(use, row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    return int(values.minimum), int(values.maximum) + 1


def _count_own_rows(ranges: list[tuple[int, int]], sizes: tuple[int, ...]) -> bool:
    """Whether the indexes of each sample are its own rows, and they begin with the first ones of most and reach to the
    last ones; a graph may have no edges."""
    is_inside = all(end <= size for (_, end), size in zip(ranges, sizes, strict=True))
    with_edges = [size for (_, end), size in zip(ranges, sizes, strict=True) if end]
    is_most = sum(end - start for start, end in ranges) > _MOST * sum(with_edges)
    return is_inside and is_most and len(with_edges) >= _MIN_SAMPLES
