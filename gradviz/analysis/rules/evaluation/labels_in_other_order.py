"""GV944."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.drawn_rows import picked_row
from gradviz.analysis.rules.bases.sources.arrays.labels_of_loaders import InStoredOrder, compared_in_stored_order
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import TensorUse


class LabelsInOtherOrder(Rule):
    """Predictions in the order of a loader that shuffles are compared with labels in the order of the data set.

    What it finds
    -------------
    A comparison of what ``torch.cat()`` joins from the batches of a loader, which took each sample of a data set once
    in a shuffled order, with the labels of that data set as they are stored.

    Why it matters
    --------------
    Each prediction meets the label of another sample, so the score is that of guessing, however good the model is.

    Example
    -------
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.randn(24, 4), torch.randint(0, 2, (24,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        labels = data.tensors[1]
        scores = torch.cat([model(x) for x, y in loader])
        print((scores.argmax(1) == labels).float().mean())

    Instead
    -------
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.randn(24, 4), torch.randint(0, 2, (24,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        labels = data.tensors[1]
        scores = torch.cat([model(x) for x, y in DataLoader(data, batch_size=8, shuffle=False)])
        print((scores.argmax(1) == labels).float().mean())
    """

    code = "GV944"
    name = "labels_in_other_order"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _COMPARES):
            if call.call_site in told or len(call.inputs) != _BOTH or call.kind != "operation":
                continue
            for predicted, labels in (call.inputs, call.inputs[::-1]):
                loaded = _loaded_in_other_order(flow, row, predicted, labels)
                if loaded is not None and call.call_site not in told:
                    told.add(call.call_site)
                    yield self._finding(flow, row, loaded)
        for file, tree in own_files(case) if not told and case.histories.reached_by else ():
            for found in compared_in_stored_order(tree):
                yield self._of_arrays(file, found)

    def _of_arrays(self, file: str, found: InStoredOrder) -> Finding:
        return self.finding(
            f"this loader shuffles, and line {found.compared} compares what was collected from it with {found.labels}, "
            "which has the order in which they are stored",
            symptom="grad_wrong",
            why=_WHY,
            fix=_FIX,
            location=Location(file, found.loader),
            symptom_location=Location(file, found.compared),
        )

    def _finding(self, flow: Dataflow, row: int, loaded: int) -> Finding:
        location, other = two_lines(flow, loaded, row)
        count = shape_of(flow, flow.log.calls[row].inputs[0].tensor)[0]
        return self.finding(
            f"the batches that this line goes through are shuffled, and {call_words(flow.log.calls[row])} compares "
            f"what the model made of them with the {count:,} labels in the order in which they are stored",
            symptom="grad_wrong",
            why=_WHY,
            fix=_FIX,
            location=location,
            symptom_location=other,
            evidence={"samples": count},
        )


_WHY = "each prediction meets the label of another sample, so the score is that of guessing"
_FIX = "make the loader that is scored with shuffle=False; or collect the labels of the same batches"
_COMPARES = DIFFERENCES | {"eq", "ne", "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
_BOTH = 2
_MAX_MAKERS = 8
_MIN_SAMPLES = 8
_BY_SAMPLE = frozenset({
    "argmax", "softmax", "log_softmax", "sigmoid", "squeeze", "view", "reshape", "flatten", "round", "float", "long",
    "gt", "ge", "lt", "le", "to", "int", "bool", "cpu", "detach", "getitem", "max", "exp", "unsqueeze", "clone", "mul",
    "add", "sub", "div",
})  # fmt: skip
_SAME_ORDER = frozenset({"squeeze", "view", "reshape", "float", "long", "to", "int", "bool", "cpu", "detach", "gt"})


def _loaded_in_other_order(flow: Dataflow, row: int, predicted: TensorUse, labels: TensorUse) -> int | None:
    """The call that made the first batch of which predictions were joined, if its samples are all those of the labels
    in another order."""
    count = next(iter(shape_of(flow, labels.tensor)), 0)
    if count < _MIN_SAMPLES or shape_of(flow, predicted.tensor)[:1] != (count,):
        return None
    joined = _joined(flow, predicted, row)
    if joined is None or not any(_are_picked_one_by_one(flow, each, count) for each in _stored(flow, labels, row)):
        return None
    batches = [_batch_above(flow, use.tensor, joined) for use in flow.log.calls[joined].inputs]
    numbers = [number for batch in batches if batch is not None for number in batch[1]]
    is_each_once = None not in batches and sorted(numbers) == list(range(count))
    return batches[0][0] if is_each_once and numbers != sorted(numbers) and batches[0] is not None else None


def _joined(flow: Dataflow, use: TensorUse, row: int) -> int | None:
    """The call that joined the results of several batches."""
    for made, call in flow.makers(use.tensor, row, _MAX_MAKERS):
        if plain_name(call.function) in ("cat", "concat", "vstack", "hstack"):
            return made if len(call.inputs) >= _BOTH else None
        if plain_name(call.function) not in _BY_SAMPLE or len(call.inputs) != 1:
            return None
    return None


def _stored(flow: Dataflow, use: TensorUse, row: int) -> Iterator[int]:
    """The tensor of the labels, and what it was before it was converted."""
    yield use.tensor
    for _, call in flow.makers(use.tensor, row, _MAX_MAKERS):
        if plain_name(call.function) not in _SAME_ORDER or len(call.inputs) != 1:
            break
        yield call.inputs[0].tensor


def _are_picked_one_by_one(flow: Dataflow, tensor: int, count: int) -> bool:
    """Whether a data set gives the elements of a tensor, or of a view like it, by their indexes."""
    alike = [each for each in flow.sharing_memory(tensor) if shape_of(flow, each) == shape_of(flow, tensor)]
    return any(
        len({number for user in flow.users(each) if (number := picked_row(flow.log.calls[user])) is not None}) == count
        for each in alike or [tensor]
    )


def _batch_above(flow: Dataflow, tensor: int, row: int) -> tuple[int, list[int]] | None:
    """The call that made a batch of single samples, and their numbers, above a result."""
    for made in flow.ancestors(tensor, row, flow.step_before(row)):
        call = flow.log.calls[made]
        if plain_name(call.function) != "stack":
            continue
        makers = (flow.newest_producer(use.tensor, made) for use in call.inputs)
        numbers = [None if maker is None else picked_row(flow.log.calls[maker]) for maker in makers]
        found = [number for number in numbers if number is not None]
        if len(found) == len(numbers) == shape_of(flow, tensor)[0]:
            return made, found
    return None
