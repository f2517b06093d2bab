"""GV951."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class AverageOfOneState(Rule):
    """The states of a model that are averaged are all one and the same: they share its memory.

    What it finds
    -------------
    A parameter into which the sum or the mean of two or more tensors is loaded, all of which are the memory of one
    parameter, at one time, and has its shape. A moving average is left alone, also one that begins with the weights
    themselves; so are a matrix and its transpose, and rows or kernels that are repeated.

    Why it matters
    --------------
    ``state_dict()`` and ``parameters()`` copy nothing, and ``local = model`` does not either. States that were kept
    after other steps, or those of several clients that train one model, all are what the last step left behind. Their
    average is that, too: nothing is averaged.

    Example
    -------
    x, model = torch.randn(40, 4), torch.nn.Linear(4, 1)
    def train(part):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        (model(part) - part[:, :1]).square().mean().backward()
        optimizer.step()
        return model.state_dict()
    for round in range(3):
        states = [train(part) for part in x.split(20)]
        model.load_state_dict({key: (states[0][key] + states[1][key]) / 2 for key in states[0]})

    Instead
    -------
    import copy
    x, model = torch.randn(40, 4), torch.nn.Linear(4, 1)
    def train(part):
        local = copy.deepcopy(model)
        optimizer = torch.optim.SGD(local.parameters(), lr=0.1)
        optimizer.zero_grad()
        (local(part) - part[:, :1]).square().mean().backward()
        optimizer.step()
        return local.state_dict()
    for round in range(3):
        states = [train(part) for part in x.split(20)]
        model.load_state_dict({key: (states[0][key] + states[1][key]) / 2 for key in states[0]})
    """

    code = "GV951"
    name = "average_of_one_state"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        loaded: dict[int | None, list[_Average | None]] = defaultdict(list)
        for row, target, source in _loads(case):
            average = _average(case, row, source)
            if average is None or len(average.terms) > 1:
                loaded[case.dataflow.log.calls[row].call_site].append(average and average.of_one(target))
        for averages in loaded.values():
            known = [each for each in averages if each is not None]
            if len(known) == len(averages):
                yield self._finding(case, known)

    def _finding(self, case: Case, averages: list[_Average]) -> Finding:
        flow, last = case.dataflow, averages[-1]
        added = location_of_call(flow, last.row)
        kept = next((location_of_call(flow, row) for use in last.terms if (row := _made(flow, use)) is not None), added)
        return self.finding(
            f"the {len(last.terms):,} states that are averaged{at_line(added)} are one and the same: they share the "
            "memory of the model, as it is now",
            symptom="grad_wrong",
            why="state_dict() and parameters() copy nothing, and what trains on changes them all",
            fix="train a copy for each state: local = copy.deepcopy(model), or keep copies of the tensors: "
            "{key: value.clone() for key, value in model.state_dict().items()}",
            location=kept,
            symptom_location=added if added != kept else None,
            tensors=names_of(flow, {each.target for each in averages}),
            evidence={"states": len(last.terms)},
        )


class _Average(Struct, frozen=True):
    row: int
    """The newest call that adds."""
    terms: tuple[TensorUse, ...]
    """The tensors that are added, as they were then, where they have the memory of a parameter."""
    memories: frozenset[tuple[int, int | None]]
    """These memories, with their versions."""
    target: int = -1

    def of_one(self, target: int) -> _Average | None:
        return _Average(self.row, self.terms, self.memories, target) if len(self.memories) == 1 else None


_MAX_CALLS = 200
_KEEPS = frozenset({"div", "true_divide", "clone", "deepcopy", "detach", "float", "to", "mean", "sum", "view"})
_ADDS = frozenset({"add", "stack", "cat", "add_n"})
_TURNS = frozenset(
    {"t", "T", "mT", "H", "mH", "adjoint", "transpose", "permute", "swapaxes", "swapdims", "movedim", "flip"}
)
"""Of a matrix and its transpose, the mean is a symmetric one, and no copy."""
_FACTORS = ("1", "other", "alpha")
_STARTS = frozenset({"zeros_like", "zeros", "empty_like", "empty", "zero"})


def _loads(case: Case) -> Iterator[tuple[int, int, TensorUse]]:
    """The calls that give a parameter other values, with the parameter and what it gets."""
    flow = case.dataflow
    for row, call in enumerate(flow.log.calls):
        is_load = call.function in ("torch.Tensor.copy_", "torch.Tensor.data.__set__") and len(call.inputs) > 1
        if is_load and _is_parameter(flow, call.inputs[0].tensor):
            yield row, call.inputs[0].tensor, call.inputs[1]


def _is_parameter(flow: Dataflow, tensor: int) -> bool:
    return any(flow.log.tensors[each].role == "parameter" for each in flow.sharing_memory(tensor))


def _average(case: Case, row: int, source: TensorUse) -> _Average | None:
    """What is added up to make a tensor; None where anything else has a part in it."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    waiting, terms, newest, looked = [(source, row)], list[TensorUse](), -1, 0
    shape = shape_of(flow, calls[row].inputs[0].tensor)
    while waiting:
        use, before = waiting.pop()
        looked += 1
        if looked > _MAX_CALLS:
            return None
        if _is_parameter(flow, use.tensor):
            if shape_of(flow, use.tensor) != shape or _is_turned(flow, use):
                return None
            terms.append(use)
            continue
        made = flow.newest_producer(use.tensor, before)
        if made is None:
            continue  # A copy that Python made, or what an empty list begins with.
        call, name = calls[made], single_name(calls[made])
        if _has_negative_factor(call):
            return None  # A step against a gradient that also lets the weights decay.
        if name in _ADDS:
            waiting += [(each, made) for each in call.inputs]
            newest = max(newest, made)
        elif (kept := _kept(flow, call)) is not None:
            waiting.append((kept, made))
        elif name not in _STARTS:
            return None
    memories = frozenset((flow.memory_of(use.tensor), use.version) for use in terms)
    return _Average(newest, tuple(terms), memories) if newest >= 0 else None


def _is_turned(flow: Dataflow, use: TensorUse) -> bool:
    made = flow.log.tensors[use.tensor].producer
    return made is not None and plain_name(flow.log.calls[made].function) in _TURNS


def _has_negative_factor(call: Call) -> bool:
    factors = (call.scalars.get(place) for place in _FACTORS)
    is_number = plain_name(call.function) in ("add", "mul", "div", "true_divide")
    return is_number and any(isinstance(each, int | float) and each < 0 for each in factors)


def _kept(flow: Dataflow, call: Call) -> TensorUse | None:
    """The tensor that a call copies, or multiplies with a number."""
    name = single_name(call)
    if name == "mul":
        large = [use for use in call.inputs if shape_of(flow, use.tensor) != () or len(call.inputs) == 1]
        return large[0] if len(large) == 1 else None
    if name == "copy":
        return call.inputs[-1]
    return call.inputs[0] if name in _KEEPS and call.inputs else None


def _made(flow: Dataflow, use: TensorUse) -> int | None:
    """The call that gave a tensor the memory of a parameter, as ``state_dict()`` does."""
    known = flow.log.tensors[use.tensor]
    return known.producer if known.role != "parameter" else None
