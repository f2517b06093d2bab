"""GV702."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.converted_parameters import converted_parameters
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class NonLeaf(Rule):
    """A tensor that should train is the result of a computation, so its ``.grad`` stays None.

    What it finds
    -------------
    A tensor that an optimizer is given, or whose ``.grad`` is read after backward, although it is not a leaf: after
    ``requires_grad`` was set, it was cast, moved, scaled, or assigned the result of its own update. Also a parameter of
    which a module keeps only such a result: ``self.rate = torch.nn.Parameter(torch.tensor(0.5)).double()``. It is not
    registered, and no optimizer has it.

    Why it matters
    --------------
    ``backward()`` writes ``.grad`` of leaves only: tensors that were not computed from others that require grad. For
    ``w = torch.randn(3, requires_grad=True) * 0.01`` the leaf is the result of `randn`, which has no name any more, and
    ``w.grad`` is None.

    Example
    -------
    w = torch.randn(3, requires_grad=True) * 0.01
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.sum().backward()
    optimizer.step()

    Instead
    -------
    w = (torch.randn(3) * 0.01).requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.sum().backward()
    optimizer.step()
    """

    code = "GV702"
    name = "non_leaf"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        refused = {
            (use.tensor, row): None
            for row in histories.flow.rows_of_kind("add_param_group")
            for use in histories.log.calls[row].inputs
            if use.has_grad_fn
        }
        reported: set[int] = set()
        alike = _MadeAlike(histories)
        for number, row in (*refused, *_read_without_gradient(histories)):
            producer = max(histories.flow.producers(number, row), default=None)
            if producer is not None and producer not in reported:
                reported.add(producer)
                tensors = [number, *alike.to(number)]
                yield self._finding(case, tensors, row, producer, is_refused=(number, row) in refused)
        by_line: dict[Location | None, Finding] = {}
        for leaf, kept, conversion in converted_parameters(histories):
            if conversion not in reported:
                by_line.setdefault(
                    location_of_call(histories.flow, conversion), self._lost(case, leaf, kept, conversion)
                )
        yield from by_line.values()

    def _lost(self, case: Case, leaf: int, kept: int, conversion: int) -> Finding:
        """Of a parameter of which the program has only a result."""
        flow = case.dataflow
        function, holder = call_words(flow.log.calls[conversion]), flow.log.tensors[kept].holder
        is_parameter = flow.log.tensors[leaf].role == "parameter"
        name = "what is kept here" if holder is None else holder.path
        return self.finding(
            f"{name} is the result of {function}, not the {'parameter' if is_parameter else 'leaf'} that {function} "
            "took: no module registers it, no optimizer has it, and it keeps its first value",
            symptom="grad_none",
            why="an operation on a parameter returns a plain tensor with a history; the gradient goes to the parameter "
            "itself, which has no name any more",
            fix="compute first, and wrap the result: torch.nn.Parameter(torch.tensor(...).double())",
            location=location_of_call(flow, conversion),
            tensors=() if holder is None else (holder.path,),
            evidence={"function": flow.log.calls[conversion].function},
        )

    def _is_intermediate(self, histories: ParameterHistories, call: Call) -> bool:
        """Whether it was computed from something that the program still has, not from a leaf that only was to become
        it."""
        return any(use.has_grad_fn or histories.tensor(use.tensor).names for use in call.live_inputs)

    def _finding(self, case: Case, tensors: list[int], row: int, producer: int, *, is_refused: bool) -> Finding:
        """Of the first of these tensors; the others were made in the same way."""
        histories = case.histories
        call = histories.log.calls[producer]
        function = call.function.rpartition(".")[2].strip("_")
        name = histories.name(tensors[0])
        is_between = not is_refused and self._is_intermediate(histories, call)
        what = "so no optimizer accepts it" if is_refused else "so its .grad stays None"
        return self.finding(
            f"{name} is not a leaf: it is the result of {function}(), {what}",
            symptom="raises" if case.capture.error is not None else "grad_none",
            why="requires_grad was set before the computation, so the leaf, which gets the gradient, is its input",
            fix=f"call {name}.retain_grad() before backward()" if is_between else _COMPUTE_FIRST,
            location=location_of_call(histories.flow, producer),
            symptom_location=location_of_call(histories.flow, row),
            tensors=names_of(histories.flow, tensors),
            evidence={"function": call.function},
        )


_COMPUTE_FIRST = (
    "compute first and set requires_grad on the result: (...).detach().requires_grad_(); update a leaf in place, under "
    "torch.no_grad()"
)


def _read_without_gradient(histories: ParameterHistories) -> Iterator[tuple[int, int]]:
    """Tensors with a ``grad_fn`` whose ``.grad`` was None when the program read it after a backward call."""
    read = ((histories.log.calls[row].inputs[0], row) for row in histories.reads_of_no_gradient)
    return ((use.tensor, row) for use, row in read if use.has_grad_fn)


class _MadeAlike:
    """Variables that the same function made from leaves without a name."""

    def __init__(self, histories: ParameterHistories) -> None:
        self._histories = histories

    def to(self, number: int) -> list[int]:
        """The other results of the function that made a tensor."""
        functions = {self._histories.log.calls[row].function for row in self._histories.flow.producers(number)}
        return sorted(other for each in functions for other in self._by_function.get(each, ()) if other != number)

    @cached_property
    def _by_function(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for number, tensor in enumerate(self._histories.log.tensors):
            if tensor.names and tensor.producer is not None:
                call = self._histories.log.calls[tensor.producer]
                live = call.live_inputs
                if live and all(use.is_leaf and not self._histories.tensor(use.tensor).names for use in live):
                    found[call.function].append(number)
        return dict(found)
