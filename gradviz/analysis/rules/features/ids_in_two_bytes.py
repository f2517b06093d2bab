"""GV938."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name


class IdsInTwoBytes(Rule):
    """Ids of more than 65,536 tokens are stored in two bytes each.

    What it finds
    -------------
    An embedding of clearly more than 65,536 rows that is looked up at ids up to about 65,536, which come from an array
    or a file, and none above, in a program that stores or reads such arrays as ``uint16``. An embedding that was made
    a little larger than that, to have a round number of rows, is left alone.

    Why it matters
    --------------
    Nothing raises: 65,536 becomes 0, and 70,000 becomes 4,464. All tokens behind the first 65,536 turn into others that
    have nothing to do with them, in what the model reads and in what it is to predict.

    Example
    -------
    import numpy as np
    stored = np.random.default_rng(0).integers(0, 90_000, 4000).astype(np.uint16)
    embed, head = torch.nn.Embedding(90_000, 2), torch.nn.Linear(2, 4)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        ids = torch.from_numpy(stored[step * 1000 : step * 1000 + 1000].astype(np.int64))
        loss = torch.nn.functional.cross_entropy(head(embed(ids)), ids % 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    import numpy as np
    stored = np.random.default_rng(0).integers(0, 90_000, 4000).astype(np.uint32)
    embed, head = torch.nn.Embedding(90_000, 2), torch.nn.Linear(2, 4)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        ids = torch.from_numpy(stored[step * 1000 : step * 1000 + 1000].astype(np.int64))
        loss = torch.nn.functional.cross_entropy(head(embed(ids)), ids % 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV938"
    name = "ids_in_two_bytes"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        tables: dict[int, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, frozenset({"embedding"})):
            table = call.inputs[1].tensor if len(call.inputs) > 1 else None
            if table is not None and shape_of(flow, table)[0] > _MIN_ROWS:
                tables[table].append(row)
        for table, rows in tables.items():
            highest = _highest_id(case, rows)
            if highest is None or not _NEAR_LAST <= highest <= _LAST or not flow.has_step_after(rows[0]):
                continue
            line = next(_lines_of_two_bytes(case), None)
            if line is not None:
                yield self._finding(case, table, rows[-1], line)

    def _finding(self, case: Case, table: int, row: int, line: Location) -> Finding:
        flow = case.dataflow
        count, used = shape_of(flow, table)[0], location_of_call(flow, row)
        names = names_of(flow, [table])
        return self.finding(
            f"ids are kept as uint16, which ends at {_LAST:,}, and {names[0] if names else 'an embedding'} has "
            f"{count:,} rows: no id above {_LAST:,} is ever looked up{at_line(used)}",
            symptom="grad_wrong",
            why="integers that do not fit begin again at 0: token 70,000 becomes token 4,464",
            fix="store and read the ids as uint32 (np.uint32), on both sides",
            location=line,
            symptom_location=used,
            tensors=names,
            evidence={"rows": count},
        )


_LAST = 65_535
_NEAR_LAST = 60_000
"""Ids that begin again at 0 fill all of two bytes; what ends far below may just be data with room for more."""
_MIN_ROWS = 67_000
"""More than 65,536 with some special tokens, rounded up."""
_MIN_IDS = 100
_FROM_OUTSIDE = frozenset({"from_numpy", "as_tensor", "tensor", "frombuffer", "from_file", "asarray", "from_dlpack"})
_KEEP = frozenset({
    "to", "long", "int", "getitem", "stack", "cat", "view", "reshape", "contiguous", "clone", "pin_memory", "squeeze",
    "unsqueeze", "narrow", "select", "type",
})  # fmt: skip
_MAX_MAKERS = 12


def _highest_id(case: Case, rows: list[int]) -> float | None:
    """The highest id that any of these lookups got; None where some are unknown, or did not come from outside."""
    flow, highest, count = case.dataflow, -1.0, 0
    for row in rows:
        index = flow.log.calls[row].inputs[0]
        values = flow.values_of(index, row)
        if values is None or values.maximum is None:
            return None
        highest, count = max(highest, values.maximum), count + values.count
    is_known = count >= _MIN_IDS and _is_from_outside(case, flow.log.calls[rows[-1]].inputs[0].tensor, rows[-1])
    return highest if is_known else None


def _is_from_outside(case: Case, tensor: int, before: int) -> bool:
    """Whether a tensor is, or was put together of, what no call of torch computed: arrays become tensors unseen."""
    flow = case.dataflow
    for _ in range(_MAX_MAKERS):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or plain_name(call.function) in _FROM_OUTSIDE:
            return True
        if plain_name(call.function) not in _KEEP or not call.inputs:
            return False
        tensor, before = call.inputs[0].tensor, row
    return False


# -- the source --------------------------------------------------------------------------------------------------------

_CONVERT = frozenset({"astype", "array", "asarray", "fromiter"})
_FILES = frozenset({"memmap", "fromfile", "frombuffer", "open_memmap", "load"})


def _lines_of_two_bytes(case: Case) -> Iterator[Location]:
    """The lines that make arrays of ``uint16``; then those that read them."""
    found = [(each, file) for file, tree in own_files(case) for each in tree.nodes if isinstance(each, ast.Call)]
    for names in (_CONVERT, _FILES):
        for call, file in found:
            given = [*call.args, *(each.value for each in call.keywords)]
            if called_name(call) in names and any(_is_two_bytes(each) for each in given):
                yield Location(file, call.lineno)


def _is_two_bytes(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
    return name in ("uint16", "<u2", "u2", "ushort")
