"""GV958."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.ratios_over_batches import RatioOverBatches, ratios_over_batches
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line


class MeanOfRatios(Rule):
    """A precision, a recall, an F1 or an area under a curve is computed for each batch, and averaged.

    What it finds
    -------------
    A loop over the batches of an evaluation that computes a ratio of two counts of samples, or calls a function of
    scikit-learn, torchmetrics or torcheval that does, and a mean of the results over the batches. Accuracies are left
    alone, and so are overlaps of single images, means over folds, users or classes, and ratios during training.

    Why it matters
    --------------
    The denominator is another number in each batch: a batch with one positive sample counts as much as one with ten,
    and a batch without any counts as 0 or 1. The mean depends on the size and the order of the batches and is not the
    F1 of the data. For an area under a curve, pairs of different batches are never compared.

    Example
    -------
    x = torch.randn(96, 4)
    y = (x[:, 0] > 1).float()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(20):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x[:48]).squeeze(1), y[:48])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = 0
    with torch.no_grad():
        for rows in torch.arange(48, 96).split(8):
            p = (model(x[rows]).squeeze(1) > 0).float()
            hits = (p * y[rows]).sum()
            total += hits / y[rows].sum().clamp(min=1)
    print(total / 6)

    Instead
    -------
    x = torch.randn(96, 4)
    y = (x[:, 0] > 1).float()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(20):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x[:48]).squeeze(1), y[:48])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    hits = positives = 0
    with torch.no_grad():
        for rows in torch.arange(48, 96).split(8):
            p = (model(x[rows]).squeeze(1) > 0).float()
            hits += (p * y[rows]).sum()
            positives += y[rows].sum()
    print(hits / positives)
    """

    code = "GV958"
    name = "mean_of_ratios"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location]()  # One loop may compute several.
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(case.dataflow, file)
            for found in ratios_over_batches(tree):
                loop = Location(file, found.first)
                if loop not in told and _goes_over_batches(case, tree, ran, found) and _scores(case, ran, found):
                    told.add(loop)
                    yield self._finding(file, found)

    def _finding(self, file: str, found: RatioOverBatches) -> Finding:
        what = f"{found.metric}() of each batch" if found.metric else "a ratio of two counts of each batch"
        return self.finding(
            f"{found.name} collects {what}, and the mean over the batches is taken",
            symptom="none",
            why="the denominator differs from batch to batch, so this is not the ratio of all samples, and depends on "
            "the size of the batches",
            fix="collect the predictions and labels of all batches and compute it once, behind the loop"
            if found.metric
            else "add up the two counts over all batches, and divide them once, behind the loop",
            location=Location(file, found.added),
            symptom_location=Location(file, found.averaged),
        )


_WRAP = frozenset({"enumerate", "tqdm", "zip", "list", "iter", "track"})
_CUTS = frozenset({"split", "chunk", "array_split", "DataLoader", "tensor_split"})
_WITH_STEP = 3
_DEEP = 3
_TWICE = 2
_COUNTED = frozenset({"and", "logical_and", "bitwise_and", "sum", "numpy"})
"""What counts samples, or leaves torch to be counted."""


def _goes_over_batches(case: Case, tree: SourceTree, ran: LinesThatRan, found: RatioOverBatches) -> bool:
    """Whether a loop goes over parts of the data that only their size makes: those of a loader, or slices."""
    flow, over = case.dataflow, found.over
    joined = [
        shape_of(flow, flow.log.calls[row].outputs[0].tensor)
        for row in ran.rows_in(over.lineno, last_line(over))
        if plain_name(flow.log.calls[row].function) == "stack" and flow.log.calls[row].outputs
    ]
    sizes = [shape[0] for shape in joined if shape]
    return max(sizes, default=0) > 1 or _is_cut(tree, over, _DEEP)


def _is_cut(tree: SourceTree, value: ast.expr, deep: int) -> bool:
    name = called_name(value)
    if isinstance(value, ast.Call) and name in _WRAP:
        return any(_is_cut(tree, each, deep) for each in value.args)
    if isinstance(value, ast.Call):
        return name in _CUTS or (name == "range" and len(value.args) == _WITH_STEP)
    key = tree.key_of(value) if deep else None
    given = tree.values_of(key)
    return any(called_name(each) == "DataLoader" and _is_cut(tree, each, deep - 1) for each in given)


def _scores(case: Case, ran: LinesThatRan, found: RatioOverBatches) -> bool:
    """Whether a trained model runs twice or more in a loop, without a backward, and single samples are counted."""
    flow, rows = case.dataflow, ran.rows_in(found.first, found.last)
    calls = [flow.log.calls[row] for row in rows]
    runs = Counter(
        (flow.backward_before(row), use.tensor)
        for row in rows
        for use in flow.log.calls[row].inputs
        if use.tensor in case.histories.reached
    )
    if max(runs.values(), default=0) < _TWICE or any(call.kind in ("backward", "step") for call in calls):
        return False
    if found.metric:
        return True
    counted = (
        call
        for call in calls
        if plain_name(call.function) in _COUNTED
        and call.inputs
        and not (plain_name(call.function) == "sum" and shape_of(flow, call.outputs[0].tensor))
    )
    shapes = [shape_of(flow, call.inputs[0].tensor) for call in counted]
    wide = [shape for shape in shapes if prod(shape) > 1]
    return bool(wide) and all(max(shape) == prod(shape) for shape in wide)
