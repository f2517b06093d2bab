"""GV937."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import Key, called_name
from gradviz.graph.call_log import Call, TensorUse


class PositiveEveryFew(Rule):
    """Each query brings several passages, one after the other, and the labels count the queries.

    What it finds
    -------------
    A cross entropy with labels of ``torch.arange(n)``, for scores of ``n`` queries with ``n * k`` keys, where the keys
    were made of ``k`` for each query and laid out query by query: those of the first query are the first ``k`` columns.
    Keys that were put together as all positives and then all negatives have their positives at 0 to ``n - 1``, and are
    left alone.

    Why it matters
    --------------
    Only the first query gets its own positive. The others are brought near to what belongs to another query, often to
    one of its negatives.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for step in range(3):
        queries, passages = torch.randn(8, 6), torch.randn(8, 3, 6)
        scores = encoder(queries) @ encoder(passages.flatten(0, 1)).T
        labels = torch.arange(8)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for step in range(3):
        queries, passages = torch.randn(8, 6), torch.randn(8, 3, 6)
        scores = encoder(queries) @ encoder(passages.flatten(0, 1)).T
        labels = torch.arange(8) * 3
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV937"
    name = "positive_every_few"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, lists = case.dataflow, _lists_by_query(case)
        for rows in calls_in_training(flow, frozenset({"cross_entropy", "nll_loss"})):
            # Of a long training, it is not recorded at every step how a loader made its batch.
            known = [(row, _counted(flow, row, lists)) for row in rows if not _is_of_unknown_keys(flow, row)]
            row, found = known[-1] if known else (-1, None)
            if len(known) >= _MIN_CALLS and found is not None and all(each is not None for _, each in known):
                yield self._finding(flow, row, found)

    def _finding(self, flow: Dataflow, row: int, found: _Counted) -> Finding:
        location, loss = two_lines(flow, found.labels, row)
        return self.finding(
            f"the labels are 0 to {found.queries - 1:,}, and the columns of the scores{at_line(loss)} are "
            f"{found.each:,} for each of {found.queries:,} queries, one query after the other: only the first label "
            "names a column of its own query",
            symptom="grad_wrong",
            why="each query is brought near to what belongs to another one",
            fix=f"count the columns of each query: torch.arange(n) * {found.each}",
            location=location,
            symptom_location=loss,
            evidence={"queries": found.queries, "columns_each": found.each},
        )


class _Counted(Struct, frozen=True):
    labels: int
    """The call that counted."""
    queries: int
    each: int
    """The columns that belong to each query."""


_MIN_CALLS = 2
_TWO = 2
_SCALES = frozenset({"div", "mul", "add", "sub", "clamp", "to", "float", "log_softmax"})
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "linear"})
_STACKS = frozenset({"stack", "cat", "vstack"})
_CUT = frozenset({"flatten", "view", "reshape"})
_MAX_SCALES = 4
_MAX_FOLLOWED = 60


def _lists_by_query(case: Case) -> frozenset[Location]:
    """The lines that stack a list to which one loop adds several rows in each turn, as a positive and its negatives."""
    found = set[Location]()
    for file, tree in own_files(case):
        added: dict[tuple[Key, ast.AST], list[ast.Call]] = defaultdict(list)
        for node in tree.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=held, attr="append" | "extend"), args=[_]):
                    key, loop = tree.key_of(held), next(tree.loops_around(node), None)
                    if key is not None and loop is not None and tree.parent(node) in tree.statements_at(node.lineno):
                        added[key, loop].append(node)
        several = {key for (key, _), calls in added.items() if len({ast.unparse(each.args[0]) for each in calls}) > 1}
        stacks = (each for each in tree.nodes if isinstance(each, ast.Call) and called_name(each) in _STACKS)
        found |= {Location(file, each.lineno) for each in stacks if each.args and tree.key_of(each.args[0]) in several}
    return frozenset(found)


def _counted(flow: Dataflow, row: int, lists: frozenset[Location]) -> _Counted | None:
    """Labels that count the queries, and how many columns each query has, if these are laid out query by query."""
    scores, target = flow.log.calls[row].inputs[:_TWO]
    labels = value_maker(flow, target.tensor, row)
    shape = shape_of(flow, scores.tensor)
    if labels is None or plain_name(labels[1].function) != "arange" or len(shape) != _TWO:
        return None
    queries, columns = shape
    values = flow.values_of(target, row)
    is_from_zero = values is not None and (values.minimum, values.maximum) == (0, queries - 1)
    is_counted = is_from_zero and shape_of(flow, target.tensor) == (queries,)
    each = columns // max(queries, 1)
    product = _product(flow, scores.tensor, row)
    if not is_counted or product is None or columns != each * queries or each <= 1 or each == queries:
        return None
    keys = _keys(flow, product, columns)
    if keys is None or not _is_laid_out_by_query(flow, keys, product, (queries, columns), lists):
        return None
    return _Counted(labels[0], queries, each)


def _product(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The product of queries and keys that scores were before they were scaled."""
    for _ in range(_MAX_SCALES):
        made = value_maker(flow, tensor, before, through=_SCALES)
        if made is None:
            return None
        before, call = made
        name = plain_name(call.function)
        if name in _PRODUCTS:
            return before
        larger = [use for use in call.inputs if shape_of(flow, use.tensor) == shape_of(flow, call.outputs[0].tensor)]
        if name not in _SCALES or len(larger) != 1:
            return None
        tensor = larger[0].tensor
    return None


def _keys(flow: Dataflow, product: int, columns: int) -> TensorUse | None:
    """The side of a product that has as many rows, or columns, as the scores have columns."""
    inputs = flow.log.calls[product].inputs[:_TWO]
    found = [use for use in inputs if columns in shape_of(flow, use.tensor)]
    return found[0] if len(found) == 1 and len(inputs) == _TWO else None


def _is_of_unknown_keys(flow: Dataflow, row: int) -> bool:
    """Whether the keys of scores were computed of data of which no call was recorded."""
    scores = flow.log.calls[row].inputs[0]
    product, columns = _product(flow, scores.tensor, row), shape_of(flow, scores.tensor)[-1:]
    keys = None if product is None or not columns else _keys(flow, product, columns[0])
    if keys is None or product is None:
        return False
    tensor, before = keys.tensor, product
    for _ in range(_MAX_FOLLOWED):
        made = flow.newest_producer(tensor, before)
        if made is None:
            return not flow.log.tensors[tensor].requires_grad and (flow.log.tensors[tensor].first_seen or 0) > 0
        above = [use for use in flow.log.calls[made].inputs if columns[0] in shape_of(flow, use.tensor)]
        if len(above) != 1:
            return False
        tensor, before = above[0].tensor, made
    return False


def _is_laid_out_by_query(
    flow: Dataflow, keys: TensorUse, product: int, sizes: tuple[int, int], lists: frozenset[Location]
) -> bool:
    """Whether rows of several for each query were joined to one axis, and each row was computed by itself since."""
    waiting, seen, (queries, columns) = [(keys.tensor, product)], set[int](), sizes
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or row in seen or _is_put_in_order(call):
            continue
        seen.add(row)
        if _joins(flow, call, queries, columns):
            return True
        if plain_name(call.function) in _STACKS and len(call.inputs) == columns:
            return location_of_call(flow, row) in lists
        waiting += [(use.tensor, row) for use in call.inputs if columns in shape_of(flow, use.tensor)]
    return False


def _is_put_in_order(call: Call) -> bool:
    """Whether a call may give rows another order: then the first columns may be those of all positives."""
    name = plain_name(call.function)
    return name in _ORDERS or (name == "getitem" and len(call.inputs) > 1)


_ORDERS = frozenset({"index_select", "gather", "take_along_dim", "take", "flip", "roll", "sort"})


def _joins(flow: Dataflow, call: Call, queries: int, columns: int) -> bool:
    """Whether a call makes one axis of those of queries and of their rows, or puts the rows of all queries together."""
    name, each = plain_name(call.function), columns // queries
    if not call.inputs or not call.outputs or shape_of(flow, call.outputs[0].tensor)[:1] != (columns,):
        return False
    given = [shape_of(flow, use.tensor) for use in call.inputs]
    if name == "cat":
        return len(given) == queries and all(shape[:1] == (each,) for shape in given)
    return name in _CUT and given[0][:_TWO] == (queries, each)
