"""GV731."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.shared_arrays import subtracts_kept
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call


class DifferenceWithItself(Rule):
    """Parameters before and after some steps are subtracted, and both are the same memory.

    What it finds
    -------------
    ``end - start`` of whole parameters in a program that trains them, where both names stand for one memory: a
    ``state_dict()``, a list of parameters or ``p.data`` that was kept without a copy. Also of arrays that ``numpy()``
    gave of them at different steps.

    Why it matters
    --------------
    Steps change parameters in place, so what was kept changes with them. The difference is zero, whatever was learned
    in between, and everything that is computed from it has no effect.

    Example
    -------
    model = torch.nn.Linear(3, 1)
    for task in range(3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        start = model.state_dict()
        for step in range(2):
            optimizer.zero_grad()
            (model(torch.randn(8, 3)) - 1).square().mean().backward()
            optimizer.step()
        end = model.state_dict()
        model.load_state_dict({name: start[name] + 0.5 * (end[name] - start[name]) for name in start})

    Instead
    -------
    model = torch.nn.Linear(3, 1)
    for task in range(3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        for step in range(2):
            optimizer.zero_grad()
            (model(torch.randn(8, 3)) - 1).square().mean().backward()
            optimizer.step()
        end = model.state_dict()
        model.load_state_dict({name: start[name] + 0.5 * (end[name] - start[name]) for name in start})
    """

    code = "GV731"
    name = "difference_with_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        trained = {flow.log.tensors[each].storage for each in case.histories.trained} - {None}
        for row, call in enumerate(flow.log.calls):
            if call.call_site in told:
                continue
            found = next((each for each in flow.lists.singles(row) if _is_of_one_memory(flow, each, trained)), None)
            if found is not None and _is_kept_since_a_step(flow, row, found):
                told.add(call.call_site)
                yield self._finding(flow, row, found)
        for location in _lines_of_arrays(case, trained):
            yield self._of_arrays(location)

    def _of_arrays(self, location: Location) -> Finding:
        return self.finding(
            "the arrays that this line takes have the memory of the parameters: the difference of two that were kept "
            "is zero, whatever was learned in between",
            symptom="grad_wrong",
            why="numpy() does not copy, and steps change parameters in place",
            fix="keep copies: p.detach().numpy().copy()",
            location=location,
        )

    def _finding(self, flow: Dataflow, row: int, call: Call) -> Finding:
        made = [flow.newest_producer(use.tensor, row) for use in call.inputs]
        kept = min((each for each in made if each is not None), default=None)
        used = location_of_call(flow, row)
        location = used if kept is None else location_of_call(flow, kept)
        return self.finding(
            f"what was kept here is the memory of the parameters: the difference{at_line(used)} is zero, whatever was "
            "learned in between",
            symptom="grad_wrong",
            why="steps change parameters in place, and what was kept without a copy changes with them",
            fix="keep copies: copy.deepcopy(model.state_dict()), or p.detach().clone() of each",
            location=location,
            symptom_location=used if used != location else None,
        )


_BOTH = 2
_DIFFERENCES = frozenset({"sub", "subtract", "dist", "mse_loss", "l1_loss"})


def _is_kept_since_a_step(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether one of the two was taken before the last step. ``x - x.detach()``, as in a straight-through estimator, is
    zero on purpose."""
    taken = [use.tensor for use in call.inputs if flow.log.tensors[use.tensor].role != "parameter"]
    made = [flow.newest_producer(tensor, row) for tensor in taken]
    return any(each is None or each < flow.step_before(row) for each in made)


def _is_of_one_memory(flow: Dataflow, call: Call, trained: set[int | None]) -> bool:
    """Whether a call subtracts a whole parameter from itself, by another name."""
    if plain_name(call.function) not in _DIFFERENCES or len(call.inputs) != _BOTH:
        return False
    if any(use.requires_grad for use in call.outputs):
        return False
    one, other = (use.tensor for use in call.inputs)
    storage = flow.log.tensors[one].storage
    results = call.outputs[0].values if call.outputs else None
    is_zero = results is not None and results.zeros == results.count
    return (
        one != other
        and storage in trained
        and storage == flow.log.tensors[other].storage
        and shape_of(flow, one) == shape_of(flow, other)
        # What .data gives has a version of its own.
        and (is_zero or call.inputs[0].version == call.inputs[1].version)
    )


def _lines_of_arrays(case: Case, trained: set[int | None]) -> Iterator[Location]:
    """The first line of each file that makes arrays of trained parameters at several steps, if the file subtracts what
    it keeps of them."""
    flow = case.dataflow
    steps: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row, call in calls_named(flow, _ARRAYS):
        if call.inputs:
            line = flow.line_of(row)
            if line is not None and flow.log.tensors[call.inputs[0].tensor].storage in trained:
                steps[line.file][line.line].add(flow.step_before(row))
    for file, lines in steps.items():
        source = case.capture.sources.get(file, {})
        if source and len(set().union(*lines.values())) > 1 and subtracts_kept(tree_of(source), set(lines)):
            yield Location(file, min(lines))


_ARRAYS = frozenset({"numpy", "array"})
