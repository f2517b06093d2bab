"""GV611."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class DuplicateIndex(Rule):
    """Values are written through an index that names a position several times: all but one are lost.

    What it finds
    -------------
    ``x[index] = values``, ``x[index] += values``, ``index_put``, ``put``, ``index_copy`` and ``scatter`` where the
    index must contain duplicates, because it has more entries than there are positions. The values have a
    history; or they are different data, are written into a new tensor, and the loss is computed of that; or they are
    ones, and something is divided by the result, as by the number of neighbours of a node.

    Why it matters
    --------------
    Of all values for one position, only one is kept, and only this one gets a gradient. ``+=`` through an index does
    not add them up either: it reads, adds and writes once.

    Example
    -------
    layer = torch.nn.Linear(4, 2)
    node = torch.tensor([0, 0, 1, 1, 2, 2])
    total = torch.zeros(3, 2)
    total[node] += layer(torch.randn(6, 4))
    total.square().sum().backward()

    Instead
    -------
    layer = torch.nn.Linear(4, 2)
    node = torch.tensor([0, 0, 1, 1, 2, 2])
    total = torch.zeros(3, 2).index_add(0, node, layer(torch.randn(6, 4)))
    total.square().sum().backward()
    """

    code = "GV611"
    name = "duplicate_index"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[Location | None] = set()
        for row, call in enumerate(flow.log.calls):
            lost = _lost_entries(flow, row, call)
            location = location_of_call(flow, row) if lost else None
            if lost and location not in told:
                told.add(location)
                yield self._finding(case, row, call, lost, location)

    def _finding(self, case: Case, row: int, call: Call, lost: int, location: Location | None) -> Finding:
        flow = case.dataflow
        values = [use for use in call.inputs[1:] if use.requires_grad]
        at = case.node_of_call(row)
        return self.finding(
            f"{call_words(call)} writes through an index with duplicates: at least {lost:,} of its values are lost",
            symptom="grad_wrong",
            why="of several values for one position one is kept, and the others "
            + ("get no gradient" if values else "have no influence on the result"),
            fix="add them up: x.index_add(0, index, values), or scatter_add; or make the index unique",
            location=location,
            tensors=leaf_names_above(flow, values[0].tensor, row, flow.step_before(row)) if values else (),
            evidence={"values_lost_at_least": lost},
            **case.facts_of_node((at.graph, at.node) if at is not None else None),
        )


_ASSIGN = frozenset({
    "torch.Tensor.__setitem__",
    *(
        f"torch.{prefix}{name}"
        for prefix in ("", "Tensor.")
        for name in ("index_put", "index_put_", "put", "put_")
    ),
})  # fmt: skip
_WRITE_ALONG = frozenset(
    f"torch.{prefix}{name}{suffix}"
    for prefix in ("", "Tensor.")
    for name in ("index_copy", "index_fill", "scatter")
    for suffix in ("", "_")
)


def _lost_entries(flow: Dataflow, row: int, call: Call) -> int:
    """How many values are overwritten for certain."""
    is_write = call.function in _ASSIGN or call.function in _WRITE_ALONG
    if not is_write or not call.inputs or call.kind != "operation" or call.raised is not None:
        return 0
    is_live = any(use.requires_grad for use in call.inputs[1:])
    if not (is_live or _puts_data_together(flow, row, call) or _counts(flow, row, call)):
        return 0
    if call.scalars.get("accumulate") or call.scalars.get("3") is True or "reduce" in call.scalars:  # adds them up
        return 0
    indexes = [use for use in call.inputs[1:] if _is_index(flow, use)]
    if call.function in _ASSIGN:
        return _without_a_position(flow, row, indexes, None)
    if call.function in _WRITE_ALONG and len(indexes) == 1:
        along = call.scalars.get("1", call.scalars.get("dim", 0))
        lost = _without_a_position(flow, row, indexes, along if isinstance(along, int) else 0)
        return lost or _not_in_the_result(flow, row, call, indexes[0])
    return 0


def _not_in_the_result(flow: Dataflow, row: int, call: Call, index: TensorUse) -> int:
    """Values other than zero that were written among zeros, and of which the result has fewer."""
    source = call.inputs[-1]
    before, written = (flow.values_of(use, row) for use in (call.inputs[0], source))
    after = call.outputs[0].values if call.outputs else None
    if before is None or after is None or before.zeros != before.count:
        return 0
    if source is index:  # a number is written at each entry
        return max(prod(shape_of(flow, index.tensor)) - (after.count - after.zeros), 0)
    if written is None or shape_of(flow, source.tensor) != shape_of(flow, index.tensor):
        return 0
    return max(written.count - written.zeros - (after.count - after.zeros), 0)


def _counts(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether ones are written, and what came of it divides: how often each position is named was meant."""
    source, number = call.inputs[-1], _number_written(call)
    values = flow.values_of(source, row)
    is_ones = values is not None and _is_one(values.minimum) and _is_one(values.maximum)
    if not (_is_one(number) if number is not None else is_ones and not _is_index(flow, source)):
        return False
    below = flow.users_below(call.outputs[0].tensor, row, _MAX_AROUND, _keeps_counts) if call.outputs else ()
    return any(using.inputs[-1].tensor == tensor and _divides(using) for tensor, _, using in below)


def _keeps_counts(call: Call) -> bool:
    return call.kind == "operation" and plain_name(call.function) in _KEEPS_COUNTS


def _number_written(call: Call) -> object:
    return call.scalars.get("value", call.scalars.get("3" if call.function in _WRITE_ALONG else "2"))


def _is_one(value: object) -> bool:
    return isinstance(value, (int, float)) and value == 1


def _divides(call: Call) -> bool:
    """Whether a call divides by its last input."""
    name, exponent = plain_name(call.function), call.scalars.get("1", call.scalars.get("exponent"))
    is_power = name == "pow" and isinstance(exponent, (int, float)) and exponent < 0
    return is_power or name in {"reciprocal", "rsqrt"} or (name == "div" and len(call.inputs) > 1)


_KEEPS_COUNTS = frozenset({
    "clamp", "clamp_min", "maximum", "add", "sqrt", "unsqueeze", "view", "reshape", "getitem", "float", "to", "type_as",
    "expand", "expand_as",
})  # fmt: skip
_MAX_AROUND = 8


def _puts_data_together(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether different values of data are written into a new tensor that a loss is computed of.

    Which of several values a table keeps for later, such as a priority, is no question of a loss.
    """
    source = call.inputs[-1]
    values = flow.values_of(source, row)
    if _is_index(flow, source) or values is None or values.minimum == values.maximum:
        return False
    made = flow.newest_producer(call.inputs[0].tensor, row)
    backward = next((each for each in flow.rows_of_kind("backward") if each > row), None)
    if made is None or backward is None or plain_name(flow.log.calls[made].function) not in _NEW:
        return False
    is_new = made > flow.step_before(row) and flow.is_by_program(call)
    return is_new and any(row in flow.ancestors(use.tensor, backward, row) for use in flow.log.calls[backward].roots)


_NEW = frozenset({"zeros", "new_zeros", "zeros_like", "empty", "new_empty", "empty_like", "full", "new_full"})


def _is_index(flow: Dataflow, use: TensorUse) -> bool:
    return flow.log.tensors[use.tensor].facts.dtype in ("int64", "int32") and not use.requires_grad


def _without_a_position(flow: Dataflow, row: int, indexes: list[TensorUse], along: int | None) -> int:
    """Entries of an index beyond the number of positions that it can name."""
    shapes = [[size for size in flow.log.tensors[use.tensor].facts.shape if isinstance(size, int)] for use in indexes]
    if not shapes or not all(shapes):
        return 0
    positions = 1
    for use in indexes:
        values = flow.values_of(use, row)
        if values is None or values.minimum is None or values.maximum is None:
            sizes = shape_of(flow, flow.log.calls[row].inputs[0].tensor)
            if along is None or not -len(sizes) <= along < len(sizes):
                return 0
            positions *= sizes[along]
        else:
            positions *= int(values.maximum) - int(values.minimum) + 1
    if along is None:
        entries = max(prod(shape) for shape in shapes)
    elif len(shapes[0]) == 1:  # index_copy() and index_fill() name positions of any axis by one axis
        entries = shapes[0][0]
    else:
        entries = shapes[0][along] if -len(shapes[0]) <= along < len(shapes[0]) else 0
    return max(entries - positions, 0)
