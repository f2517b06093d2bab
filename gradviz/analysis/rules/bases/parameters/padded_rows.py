"""The row of an embedding that ``padding_idx`` leaves out: which one it is, how often it is looked up, and what the
program says of numbers that stand for nothing."""

from __future__ import annotations

import ast

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.sequences.padded_ids import LOOKUPS
from gradviz.analysis.rules.bases.sources.names.numbered_names import item_with_number
from gradviz.analysis.sources.source_tree import called_name, last_line, tree_of
from gradviz.graph.call_log import Call, Padding

MIN_USUAL = 2
TIMES = 2.5
"""How much more or less often than usual a row may be looked up that is like others."""
_MAKE_TABLES = frozenset({"Embedding", "EmbeddingBag", "embedding", "from_pretrained"})
_RAISE = frozenset({"clamp", "clamp_min", "clip", "relu"})


def padding_of(call: Call) -> int | None:
    """The number whose row a lookup leaves out, as the call got it."""
    name = plain_name(call.function)
    if name not in LOOKUPS or len(call.inputs) < len(("ids", "table")) or call.inputs[1].place not in ("1", "weight"):
        return None
    value = call.scalars.get("padding_idx", call.scalars.get("2" if name == "embedding" else "10"))
    return value if type(value) is int else None


def line_of_table(case: Case, table: int) -> Location | None:
    return location_of_line(case.histories.line_where_made(table))


def line_of_padding(case: Case, table: int, row: int) -> Location | None:
    """Where ``padding_idx`` is given: at the line of a call of a function, else where the table was made."""
    here = location_of_call(case.dataflow, row)
    return here if "padding_idx" in (case.source_line(here) or "") else line_of_table(case, table)


def frequency_of_row(flow: Dataflow, rows: list[int], number: int) -> tuple[int, int]:
    """How often a row was looked up, and how many numbers there were; no numbers where that is not known.

    0 is seen in the numbers; another row in the zeros that the lookup gives, if it is all zeros and others are not.
    """
    times = count = 0
    for row in rows:
        call = flow.log.calls[row]
        values, given = flow.values_of(call.inputs[0], row), call.outputs[0].values if call.outputs else None
        width = max(shape_of(flow, call.inputs[1].tensor)[-1], 1)
        if values is None or (number and (given is None or given.zeros % width or given.zeros == given.count)):
            return 0, 0
        times += values.zeros if not number or given is None else given.zeros // width
        count += values.count
    return times, count


def _counts_from_the_end(case: Case, line: Location | None) -> bool:
    """Whether a line makes a table, or looks up in one, with a negative ``padding_idx``."""
    nodes = () if line is None else tree_of(case.capture.sources.get(line.file, {})).nodes
    return line is not None and any(
        isinstance(node, ast.Call)
        and called_name(node) in _MAKE_TABLES
        and node.lineno <= line.line <= last_line(node)
        and any(each.arg == "padding_idx" and _is_negative(each.value) for each in node.keywords)
        for node in nodes
    )


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _call_that_raises_codes(flow: Dataflow, row: int, number: int) -> int | None:
    """The call that makes another number than that of the padding of those below 0, as ``codes.clamp(min=0)`` does."""
    index = tensor_before(flow, flow.log.calls[row].inputs[0].tensor, row, SHAPE_ONLY)
    made = flow.newest_producer(index, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in _RAISE:
        return None
    values, floor = flow.values_of(call.inputs[0], made), call.scalars.get("min", call.scalars.get("1", 0))
    return made if values is not None and (values.minimum or 0) < 0 and floor != number else None


def _other_padding(flow: Dataflow, rows: list[int], number: int) -> Padding | None:
    """What fills up the sequences of ids of a table, if it is another number than the one that is left out."""
    found = [each for row in rows for each in flow.log.calls[row].padding.values()]
    is_other = found and all(each.value != number and not each.least for each in found)
    return found[0] if is_other else None


class RowInUse(Struct, frozen=True):
    """A row with another number than 0 that is declared as padding, and is looked up about as often as others."""

    table: int
    number: int
    lookup: int
    times: int
    count: int
    """How many numbers are looked up."""
    usual: float
    line: Location | None
    """Where the table was made, or is given ``padding_idx``."""
    is_negative: bool
    filled: int | None
    """With what sequences are filled up, if that is another number."""
    beside: str
    """Words for what shows that it stands for an item; empty where it may stand for what is unknown."""

    @property
    def is_item(self) -> bool:
        return bool(self.beside)


def row_in_use(case: Case, table: int, number: int, rows: list[int]) -> RowInUse | None:
    """The row of a number that is declared as padding, if it is looked up as often as others: one number for each
    sample, or sequences that another number fills up."""
    flow = case.dataflow
    times, count = frequency_of_row(flow, rows, number)
    size = shape_of(flow, table)[0]
    usual = count / max(size, 1)
    line = line_of_padding(case, table, rows[0])
    is_negative = _counts_from_the_end(case, line)
    if usual < MIN_USUAL or not usual / TIMES <= times <= usual * TIMES:
        return None
    filled = _other_padding(flow, rows, number) if is_negative else None
    if filled is None and not all(has_one_for_each_sample(case, row) for row in rows):
        return None
    beside = words_of_items(case, table, number, rows)
    if filled is not None:
        beside = f", and sequences are filled up with {filled.value}"
    fill = None if filled is None else filled.value
    return RowInUse(table, number, rows[-1], times, count, usual, line, is_negative, fill, beside)


def words_of_items(case: Case, table: int, number: int, rows: list[int]) -> str:
    """What shows that a number stands for an item like others."""
    flow, size = case.dataflow, shape_of(case.dataflow, table)[0]
    other = _other_table(case, rows[0], table)
    listed = None if other is not None else item_with_number(case, size, number)
    unknown, raised = _other_for_unknown(flow, rows, number), _call_that_raises_codes(flow, rows[-1], number)
    words = f", and {case.histories.name(other)} learns a row for the same number" if other is not None else ""
    words += f", and a list of the program gives it to {listed!r}" if listed is not None else ""
    words += f", and {unknown} stands for what is unknown or left out" if unknown is not None else ""
    if raised is not None and unknown is None:
        raising = location_of_call(flow, raised)
        words += f", and codes below 0, which stand for what is missing, look up another row{at_line(raising)}"
    return words


_FILLS_IN = frozenset({"where", "masked_fill"})


def _other_for_unknown(flow: Dataflow, rows: list[int], number: int) -> int | None:
    """Another number than that of the padding that the program puts in place of some of those that are looked up."""
    index = flow.log.calls[rows[-1]].inputs[0].tensor
    made = flow.newest_producer(index, rows[-1])
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in _FILLS_IN:
        return None
    given = [value for value in call.scalars.values() if type(value) is int]
    known = (flow.values_of(use, made) for use in call.inputs[1:])
    given += [
        int(values.minimum)
        for values in known
        if values is not None and values.minimum is not None and values.minimum == values.maximum
    ]
    return next((value for value in given if value != number), None)


def has_one_for_each_sample(case: Case, row: int) -> bool:
    """Whether the index is no sequence, and no part of one."""
    flow = case.dataflow
    index = flow.log.calls[row].inputs[0].tensor
    above = {use.tensor for each in flow.ancestors(index, row) for use in flow.log.calls[each].inputs} | {index}
    integers = [each for each in above if flow.log.tensors[each].facts.dtype in ("int64", "int32")]
    return all(len([size for size in shape_of(flow, each) if size > 1]) <= 1 for each in integers)


def _other_table(case: Case, row: int, table: int) -> int | None:
    """Another embedding without padding that looks up the same index in the same step."""
    flow = case.dataflow
    index = flow.log.calls[row].inputs[0].tensor
    for user in flow.users(index):
        call = flow.log.calls[user]
        is_lookup = plain_name(call.function) in LOOKUPS and len(call.inputs) > 1 and padding_of(call) is None
        if is_lookup and call.inputs[0].tensor == index:
            other = call.inputs[1]
            is_alike = shape_of(flow, other.tensor)[0] == shape_of(flow, table)[0]
            if other.tensor != table and other.is_live_leaf and is_alike:
                return other.tensor
    return None
