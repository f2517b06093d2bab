"""GV857."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line


class FirstBatchEachTime(Rule):
    """Each step begins a loader anew and takes its first batch, which is the same one each time.

    What it finds
    -------------
    ``next(iter(loader))`` in a loop that trains, where the loader does not shuffle and has more samples than a batch:
    every step got the same values. A part of a data set that is no larger than a batch is left alone. It
    is a note where other lines train on the same data: to learn one batch by heart is a usual test of a model.

    Why it matters
    --------------
    ``iter()`` starts at the beginning. The model sees a few samples again and again and learns them by heart; the loss
    falls nicely, and everything else stays unseen.

    Example
    -------
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        (x,) = next(iter(loader))
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV857"
    name = "first_batch_each_time"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            for call in _begun_anew(tree):
                stacked = [
                    row
                    for row in ran.rows_in(call.lineno, last_line(call))
                    if plain_name(flow.log.calls[row].function) == "stack" and flow.log.calls[row].outputs
                ]
                data = _size_of_data(flow, stacked[0]) if stacked and _are_same(flow, stacked) else None
                batch = shape_of(flow, flow.log.calls[stacked[0]].outputs[0].tensor)[0] if stacked else 0
                is_whole = any(loader.samples == batch for loader in flow.log.loaders)
                if data is not None and data > batch and not is_whole and _is_trained_on(flow, stacked[0]):
                    yield self._finding(file, call, batch, data, is_tried=_trains_elsewhere(flow, stacked))

    def _finding(self, file: str, call: ast.Call, batch: int, data: int, *, is_tried: bool) -> Finding:
        loader = ast.unparse(call.args[0].args[0]) if isinstance(call.args[0], ast.Call) else "loader"
        return self.finding(
            f"each step takes the first batch of {loader}: {data - batch:,} of {data:,} samples are never seen"
            + (" here" if is_tried else ""),
            severity="note" if is_tried else self.severity,
            symptom="grad_wrong",
            why="iter() begins at the first sample again, and the loader does not shuffle",
            fix=f"go on from batch to batch: for x, y in {loader}:",
            location=Location(file, call.lineno),
            evidence={"batch": batch, "samples": data},
        )


_MIN_TIMES = 3


def _begun_anew(tree: SourceTree) -> Iterator[ast.Call]:
    """``next(iter(loader))`` in a loop."""
    for node in tree.nodes:
        if not isinstance(node, ast.Call) or called_name(node) != "next" or not node.args:
            continue
        made = node.args[0]
        is_new = isinstance(made, ast.Call) and called_name(made) == "iter" and len(made.args) == 1
        if is_new and next(tree.loops_around(node), None) is not None:
            yield node


def _are_same(flow: Dataflow, rows: list[int]) -> bool:
    """Whether the calls that collect samples made equal values each time, which are not all one number."""
    first = flow.log.calls[rows[0]].outputs[0]
    shape = shape_of(flow, first.tensor)
    made = [flow.log.calls[row].outputs[0] for row in rows]
    alike = [use.values for use in made if shape_of(flow, use.tensor) == shape]
    known = [(each.minimum, each.maximum, each.zeros) for each in alike if each is not None]
    is_varied = bool(known) and known[0][0] != known[0][1]
    return is_varied and len(known) == len(alike) >= _MIN_TIMES and len(set(known)) == 1


def _size_of_data(flow: Dataflow, row: int) -> int | None:
    data = _data_of(flow, row)
    shape = None if data is None else shape_of(flow, data)
    return shape[0] if shape else None


def _data_of(flow: Dataflow, row: int) -> int | None:
    """The tensor of which a call collects elements."""
    given = flow.log.calls[row].inputs
    made = flow.producers(given[0].tensor, row) if given else ()
    maker = flow.log.calls[made[-1]] if made else None
    return maker.inputs[0].tensor if maker is not None and plain_name(maker.function) == "getitem" else None


def _trains_elsewhere(flow: Dataflow, stacked: list[int]) -> bool:
    """Whether other lines train on batches of the same data: to learn the first one by heart is a test of the model."""
    data, sites = _data_of(flow, stacked[0]), {flow.log.calls[row].call_site for row in stacked}
    others = [row for row, call in calls_named(flow, {"stack"}) if call.call_site not in sites and call.outputs]
    return any(_data_of(flow, row) == data and _is_trained_on(flow, row) for row in others)


def _is_trained_on(flow: Dataflow, row: int) -> bool:
    made = flow.log.calls[row].outputs[0].tensor
    step = flow.next_of_kind("step", row)
    reached = flow.descendants(made, row, step + 1)
    backwards = [each for each in reached if flow.log.calls[each].kind == "backward"]
    # What is zeroed before the next step, such as the gradient of an input that is shown, trains nothing.
    return any(flow.next_of_kind("zero_grad", each) >= step for each in backwards)
