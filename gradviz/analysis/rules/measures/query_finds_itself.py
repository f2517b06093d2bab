"""GV997."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.labels_of_neighbours import (
    ComparedLabels,
    compared_labels,
    drops_first,
)
from gradviz.analysis.rules.bases.formulas.tables_of_pairs import candidates_with_itself, is_of_distances
from gradviz.analysis.rules.bases.sources.arrays.nearest_by_hand import found_among_themselves
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call


class QueryFindsItself(Rule):
    """An evaluation searches the nearest neighbours of each sample among samples of which it is one.

    What it finds
    -------------
    ``topk()``, ``argmax()``, ``argmin()`` or a sort of the similarities, or distances, of a set of vectors with
    itself, or of each vector with the whole set. The labels of what is found are compared with the label of the sample
    itself. Nothing takes the sample out: the diagonal is not overwritten, and the first place is not left out.

    Why it matters
    --------------
    Nothing is as near to a sample as the sample itself, and its label is always right. One of k places is a hit
    whatever the model does, and with k = 1 the score is 100 %.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x, labels = torch.randn(30, 6), torch.arange(3).repeat(10)
    for step in range(3):
        z = encoder(x)
        loss = torch.nn.functional.triplet_margin_loss(z[:10], z[3:13], z[1:11])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z = torch.nn.functional.normalize(encoder(x), dim=1)
        similar = z @ z.T
        found = similar.topk(3, dim=1).indices
        print((labels[found] == labels[:, None]).float().mean())

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x, labels = torch.randn(30, 6), torch.arange(3).repeat(10)
    for step in range(3):
        z = encoder(x)
        loss = torch.nn.functional.triplet_margin_loss(z[:10], z[3:13], z[1:11])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z = torch.nn.functional.normalize(encoder(x), dim=1)
        similar = (z @ z.T).fill_diagonal_(float("-inf"))
        found = similar.topk(3, dim=1).indices
        print((labels[found] == labels[:, None]).float().mean())
    """

    code = "GV997"
    name = "query_finds_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, seen = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _RANKS) if case.histories.reached_by else ():
            if call.call_site in seen:
                continue
            made = _table_behind(flow, row, call)
            count = 0 if made is None else candidates_with_itself(flow, made, flow.log.calls[made])
            if made is None or not count or _size_ranked(flow, call) != count:
                continue
            if _takes_itself(flow, made, row, call) and any(
                _is_hit(case, each) for each in compared_labels(flow, row, call)
            ):
                seen.add(call.call_site)
                yield self._finding(flow, row, made, count)
        for file, tree in own_files(case) if not seen and case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            lines = found_among_themselves(tree)
            yield from (self._of_arrays(file, line) for line in lines if not ran.rows_in(line, line))

    def _of_arrays(self, file: str, line: int) -> Finding:
        return self.finding(
            "the neighbours of each sample are searched among all samples, the sample itself among them, and their "
            "labels are compared",
            symptom="none",
            why="nothing is as near to a sample as itself: one of the places is a hit whatever the model has learned",
            fix="leave it out before: np.fill_diagonal(similarities, -np.inf), or search one more and drop the first",
            location=Location(file, line),
        )

    def _finding(self, flow: Dataflow, row: int, made: int, count: int) -> Finding:
        # The line that makes the table is also one on which the diagonal may be overwritten.
        location, table = location_of_call(flow, row), location_of_call(flow, made)
        table = table if table != location else None
        is_far = is_of_distances(flow, made)
        return self.finding(
            f"{call_words(flow.log.calls[row])} searches the neighbours of each sample among all {count:,} of "
            f"{call_words(flow.log.calls[made])}{at_line(table)}, the sample itself among them, and their labels are "
            "compared with its own",
            symptom="none",
            why="nothing is as near to a sample as itself: one of the places is a hit whatever the model has learned",
            fix=f"leave it out before: {_HIDE[is_far]}, or search one more and drop the first: [:, 1:]",
            location=location,
            symptom_location=table,
            evidence={"samples": count},
        )


_HIDE = {
    False: 'similar.fill_diagonal_(float("-inf"))',
    True: 'distances.fill_diagonal_(float("inf"))',
}
_RANKS = frozenset({"topk", "argmax", "argmin", "argsort", "sort", "max", "min"})
_SORTS = frozenset({"argsort", "sort"})
_SCALES = frozenset({
    "div", "to", "float", "double", "cpu", "clone", "contiguous", "detach", "clamp", "clamp_min", "sqrt", "square",
    "exp", "softmax", "log_softmax", "squeeze", "flatten",
})  # fmt: skip
"""What changes no order, of values that are not negative."""
_TURNS = frozenset({"neg", "rsub", "mul", "sub", "add", "pow"})
_MAX_SCALES = 8


def _size_ranked(flow: Dataflow, call: Call) -> int:
    """The number of values among which a call chooses; 0 where that is all of a table."""
    shape, name = shape_of(flow, call.inputs[0].tensor), plain_name(call.function)
    axis = axis_of(call, len(shape), "2" if name == "topk" else "1")
    if len(shape) > 1 and axis is None and name not in _SORTS | {"topk"}:
        return 0
    return shape[-1 if axis is None else axis] if shape else 0


def _table_behind(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that compared all pairs, if what is ranked differs from it only by factors."""
    if len(call.inputs) != 1 or not call.outputs:
        return None
    for made, maker in flow.makers(call.inputs[0].tensor, row, _MAX_SCALES):
        if plain_name(maker.function) in _SCALES | _TURNS and len(maker.inputs) == 1:
            continue
        return made if maker.inputs else None
    return None


def _takes_itself(flow: Dataflow, made: int, row: int, call: Call) -> bool:
    """Whether the nearest ones are chosen, of a table in which nothing was overwritten."""
    is_turned = is_of_distances(flow, made)
    passed = {made}
    for each, maker in flow.makers(call.inputs[0].tensor, row, _MAX_SCALES):
        if each == made:
            break
        passed.add(each)
        is_turned ^= _is_turned(maker)
    tensors = [use.tensor for each in passed for use in flow.log.calls[each].outputs]
    if any(each not in passed for tensor in tensors for each in flow.changes(tensor, made, row)):
        return False
    return _takes_smallest(call) == is_turned


def _is_turned(call: Call) -> bool:
    """Whether a call makes the largest values the smallest ones."""
    number = call.scalars.get("1")
    name = plain_name(call.function)
    is_negative = isinstance(number, int | float) and number < 0
    return name in ("neg", "rsub") or call.function.endswith("rsub__") or (name in ("mul", "div") and is_negative)


def _takes_smallest(call: Call) -> bool:
    name, told = plain_name(call.function), call.scalars
    if name == "topk":
        return told.get("largest", told.get("3", True)) is False
    if name in _SORTS:
        return told.get("descending", told.get("2", False)) is not True
    return name in ("argmin", "min")


_COUNTS = frozenset({
    "float", "to", "long", "int", "double", "sum", "any", "mean", "squeeze", "view", "reshape", "cumsum",
})  # fmt: skip
_TAKES_OUT = frozenset({
    "sub", "and", "logical_and", "bitwise_and", "masked_fill", "masked_select", "where", "setitem", "fill_diagonal",
})  # fmt: skip
_MAX_BELOW = 12


def _is_hit(case: Case, compared: ComparedLabels) -> bool:
    """Whether the labels found are compared with those of the samples that were searched, and the hit that each sample
    is for itself is not taken out later."""
    flow = case.dataflow
    if not compared.has_first or not _is_of(flow, compared.other, compared.labels, compared.row):
        return False
    waiting = [(compared.row, flow.log.calls[compared.row].outputs[0].tensor)]
    for row, tensor in waiting:
        for user in flow.users(tensor, row):
            call = flow.log.calls[user]
            if plain_name(call.function) in _TAKES_OUT or drops_first(flow, call):
                return False
            if plain_name(call.function) in _COUNTS and call.outputs and len(waiting) < _MAX_BELOW:
                waiting.append((user, call.outputs[0].tensor))
    return not _is_subtracted(case, compared.row)


def _is_of(flow: Dataflow, tensor: int, labels: int, row: int) -> bool:
    """Whether a tensor is the labels, or some of them."""
    above = (use.tensor for _, call in flow.makers(tensor, row, _MAX_SCALES) for use in call.inputs[:1])
    return tensor == labels or labels in above


def _is_subtracted(case: Case, row: int) -> bool:
    """Whether the statement subtracts something from the number of hits."""
    location = location_of_call(case.dataflow, row)
    lines = None if location is None else case.capture.sources.get(location.file)
    statement = tree_of(lines).statement_at(location.line) if location is not None and lines else None
    nodes = () if statement is None else ast.walk(statement)
    differences = (each for each in nodes if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub))
    return any(isinstance(inside, ast.Compare) for each in differences for inside in ast.walk(each.left))
