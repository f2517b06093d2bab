"""GV716."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule


class AverageWrongWay(Rule):
    """A moving average pulls the trained model back to its copy, and the copy never changes.

    What it finds
    -------------
    After the steps of an optimizer, its parameters are mixed with those of another model, which the program uses as a
    teacher or target, and which nothing ever changes.

    Why it matters
    --------------
    The average was meant for the other model: a teacher or target follows the trained one slowly. Here the copy keeps
    its initial values, and each step of training is partly taken back.

    Example
    -------
    import copy

    student = torch.nn.Linear(4, 2)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        loss = (student(x) - teacher(x + 0.1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for s, t in zip(student.parameters(), teacher.parameters()):
                s.mul_(0.9).add_(t, alpha=0.1)

    Instead
    -------
    import copy

    student = torch.nn.Linear(4, 2)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        loss = (student(x) - teacher(x + 0.1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for s, t in zip(student.parameters(), teacher.parameters()):
                t.mul_(0.9).add_(s, alpha=0.1)
    """

    code = "GV716"
    name = "average_wrong_way"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        if not histories.steps:
            return
        by_line: dict[Location | None, dict[int, int]] = defaultdict(dict)
        for target in sorted(histories.trained):
            mixed = _mixed_with(case, target)
            if mixed is not None and _is_used_and_never_changed(case, mixed.source):
                by_line[location_of_call(case.dataflow, mixed.row)][target] = mixed.source
        for location, source_of in by_line.items():
            yield self._finding(case, location, source_of)

    def _finding(self, case: Case, location: Location | None, source_of: dict[int, int]) -> Finding:
        targets, sources = list(source_of), list(source_of.values())
        together = case.histories.together
        one = len(targets) == 1
        return self.finding(
            f"{together(targets)} {'is' if one else 'are'} mixed with {together(sources)} after the steps, which never "
            f"{'changes' if one else 'change'}: the average goes the wrong way",
            symptom="grad_wrong",
            why="a teacher or target is meant to follow the trained model; here the trained model is pulled back to "
            "the initial values of its copy",
            fix=f"swap the two{at_line(location)}: change the copy, with the values of the trained model",
            location=location,
            tensors=names_of(case.dataflow, targets),
            evidence={"parameters": len(targets)},
        )


_SAME_MEMORY = frozenset({"data", "detach"})


class _Mixing(NamedTuple):
    row: int
    source: int
    """The parameter of another model that is mixed in."""


def _mixed_with(case: Case, target: int) -> _Mixing | None:
    """The last change of a trained parameter that is no step and takes in one of another model."""
    flow, histories = case.dataflow, case.histories
    first, end = histories.steps[0], len(flow.log.calls)
    rows = [*flow.changes(target, first, end), *(r for r in flow.data_assignments.get(target, ()) if r > first)]
    for row in sorted(rows, reverse=True)[:_MAX_CHANGES]:
        call = flow.log.calls[row]
        if call.kind == "step" or call.inside is not None or len(call.inputs) < 2:
            continue
        name = plain_name(call.function)
        above = {_parameter_of(case, use.tensor, row) for use in call.inputs[1:]}
        if name in ("copy", "set") or call.function == "torch.Tensor.data.__set__":
            since = flow.step_before(row)
            made = flow.ancestors(call.inputs[1].tensor, row, since)
            above |= {_parameter_of(case, use.tensor, each) for each in made for use in flow.log.calls[each].inputs}
            if target not in above:
                continue  # it is replaced, not mixed
        elif name == "add":
            before = flow.changes(target, flow.step_before(row), row)
            if not any(plain_name(flow.log.calls[each].function) == "mul" for each in before):
                continue
        elif name != "lerp":
            continue
        others = [each for each in above if each is not None and each != target]
        if len(others) == 1:
            return _Mixing(row, others[0])
    return None


_MAX_CHANGES = 6


def _parameter_of(case: Case, tensor: int, row: int) -> int | None:
    """The parameter whose values a tensor has, as they are."""
    flow = case.dataflow
    if flow.log.tensors[tensor].role == "parameter":
        return tensor
    made = flow.producers(tensor, row)
    maker = flow.log.calls[made[0]] if made else None
    if maker is None or plain_name(maker.function) not in _SAME_MEMORY or not maker.inputs:
        return None
    source = maker.inputs[0].tensor
    return source if flow.log.tensors[source].role == "parameter" else None


def _is_used_and_never_changed(case: Case, number: int) -> bool:
    flow, histories = case.dataflow, case.histories
    first = histories.steps[0]
    if number in histories.trained or flow.changes(number, first, len(flow.log.calls)):
        return False
    if any(row > first for row in flow.data_assignments.get(number, ())):
        return False
    return any(plain_name(flow.log.calls[row].function) in _FORWARD for row in flow.users(number, first))


_FORWARD = frozenset({
    "linear", "matmul", "conv1d", "conv2d", "conv3d", "embedding", "layer_norm", "batch_norm", "group_norm", "mul", "t",
    "multi_head_attention_forward", "lstm", "gru",
})  # fmt: skip
