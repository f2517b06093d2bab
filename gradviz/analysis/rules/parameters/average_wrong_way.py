"""GV716."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import isclose
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.dead_terms import live_terms
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.moving_averages import Update, parameter_of, wrong_factors
from gradviz.analysis.parameters.weighted_parameters import WeightedParameters
from gradviz.analysis.rule import Rule


class AverageWrongWay(Rule):
    """A moving average goes the wrong way: from the copy to the trained model, or with its two factors swapped.

    What it finds
    -------------
    After the steps of an optimizer, its parameters are mixed with those of another model, which the program uses as a
    teacher or target, and which nothing ever changes; or they are set to its values again and again. Where that is a
    copy of a model that had been trained or loaded, and a loss has other terms, the pull to a reference may be meant,
    and it is a note. Also averages that keep a tenth or less of themselves at each update, or come there from keeping
    more, and take the rest from the trained model; and those whose two factors add up to another number than 1.

    Why it matters
    --------------
    A teacher or target is meant to follow the trained model slowly. In the first case it keeps its initial values, and
    each step of training is partly taken back; in the second it is as good as the trained model itself.

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
        sums = WeightedParameters(case.dataflow)
        by_line: dict[Location | None, dict[int, int]] = defaultdict(dict)
        whole = set[int]()
        for target in sorted(histories.trained):
            mixed = _mixed_with(case, sums, target) or _replaced_by(case, target)
            if mixed is not None and _is_used_and_never_changed(case, mixed.source):
                by_line[location_of_call(case.dataflow, mixed.row)][target] = mixed.source
                whole |= {mixed.source} if mixed.is_whole else set()
        for location, source_of in by_line.items():
            yield self._finding(case, location, source_of, is_whole=not whole.isdisjoint(source_of.values()))
        for found, describe in zip(
            wrong_factors(histories, case.averages), (self._swapped, self._unequal), strict=True
        ):
            updated: dict[Location | None, list[Update]] = defaultdict(list)
            for update in found:
                updated[location_of_call(case.dataflow, update.row)].append(update)
            for location, updates in updated.items():
                yield describe(case, location, updates)

    def _swapped(self, case: Case, location: Location | None, updates: list[Update]) -> Finding:
        together, first = case.histories.together, updates[0]
        is_one = len(updates) == 1
        keep, take = ("keeps", "takes") if is_one else ("keep", "take")
        kept, taken = f"{first.kept:.3g}", f"{first.taken:.3g}"
        lerp = "1 - decay" if first.is_falling else kept
        when = "at the last updates, less than at those before," if first.is_falling else "at each update"
        is_lerp = "lerp" in case.dataflow.log.calls[first.row].function
        return self.finding(
            f"{together(each.target for each in updates)} {keep} {kept} of the average {when} and "
            f"{take} {taken} of {together(each.source for each in updates)}: the two factors are swapped",
            symptom="grad_wrong",
            why="a moving average keeps most of its old value; this one is the trained model of the last step",
            fix=f"take {lerp} of the trained values{at_line(location)}: average.lerp_(trained, {lerp})"
            if is_lerp
            else f"swap the factors{at_line(location)}: {taken} times the average, {kept} times the trained values",
            location=location,
            tensors=names_of(case.dataflow, [each.target for each in updates]),
            evidence={"parameters": len(updates), "kept": first.kept},
        )

    def _unequal(self, case: Case, location: Location | None, updates: list[Update]) -> Finding:
        first, together = updates[0], case.histories.together
        whole, ends_at = first.kept + first.taken, first.taken / (1 - first.kept)
        targets = together(each.target for each in updates)
        return self.finding(
            f"each update makes {targets} of {first.kept:.3g} times the average and {first.taken:.3g} times "
            f"{together(each.source for each in updates)}: the two factors add up to {whole:.3g}, not to 1",
            symptom="grad_wrong",
            why=f"such an average does not come near the trained values: it ends at {ends_at:.3g} times them",
            fix="let the factors add up to 1: decay times the average, 1 - decay times the trained values"
            f"{at_line(location)}",
            location=location,
            tensors=names_of(case.dataflow, [each.target for each in updates]),
            evidence={"parameters": len(updates), "sum": whole},
        )

    def _finding(self, case: Case, location: Location | None, source_of: dict[int, int], *, is_whole: bool) -> Finding:
        targets, sources = list(source_of), list(source_of.values())
        together = case.histories.together
        one = len(targets) == 1
        is_meant = _may_be_a_reference(case, set(sources))
        be = "is" if one else "are"
        what = f"{be} set to the values of {together(sources)} again and again" if is_whole else ""
        return self.finding(
            f"{together(targets)} {what or f'{be} mixed with {together(sources)}'} after the steps, which never "
            f"{'changes' if one else 'change'}: the {'copy' if is_whole else 'average'} goes the wrong way",
            severity="note" if is_meant else self.severity,
            symptom="grad_wrong",
            why="a teacher or target is meant to follow the trained model; here the trained model is "
            + ("set" if is_whole else "pulled")
            + " back to the initial values of its copy",
            fix=("if no pull to a frozen reference is meant, " if is_meant else "")
            + f"swap the two{at_line(location)}: change the copy, with the values of the trained model",
            location=location,
            tensors=names_of(case.dataflow, targets),
            evidence={"parameters": len(targets)},
        )


class _Mixing(NamedTuple):
    row: int
    source: int
    """The parameter of another model that is mixed in."""
    is_whole: bool = False
    """Whether it takes the place of the trained one."""


def _mixed_with(case: Case, sums: WeightedParameters, target: int) -> _Mixing | None:
    """The last change of a trained parameter that is no step and takes in one of another model."""
    flow, histories = case.dataflow, case.histories
    first, end = histories.steps[0], len(flow.log.calls)
    rows = [*flow.changes(target, first, end), *(r for r in flow.data_assignments.get(target, ()) if r > first)]
    for row in sorted(rows, reverse=True)[:_MAX_CHANGES]:
        call = sums.call_on(row, target)
        if call.kind == "step" or call.inside is not None or len(call.inputs) < 2:
            continue
        name = plain_name(call.function)
        above = {_weights_of(case, use.tensor, row) for use in call.inputs[1:]}
        if name in ("copy", "set") or call.function == "torch.Tensor.data.__set__":
            since = flow.step_before(row)
            made = flow.ancestors(call.inputs[1].tensor, row, since)
            above |= {parameter_of(flow, use.tensor, each) for each in made for use in flow.log.calls[each].inputs}
            if target not in above:
                continue  # it is replaced, not mixed
        elif name != "lerp":
            found = sums.sum_of(target, row + 1, flow.step_before(row)) or {}
            if len(found) != _BOTH or target not in found or not isclose(sum(found.values()), 1, abs_tol=_ROUNDING):
                continue
            above = {_weights_of(case, each, row) for each in found}
        others = [each for each in above if each is not None and each != target]
        if len(others) == 1:
            return _Mixing(row, others[0])
    return None


def _replaced_by(case: Case, target: int) -> _Mixing | None:
    """The last of several changes that set a trained parameter to the values of one of another model between steps."""
    flow, histories = case.dataflow, case.histories
    first, last = histories.steps[0], histories.steps[-1]
    copies = [row for row in flow.changes(target, first, last) if plain_name(flow.log.calls[row].function) == "copy"]
    found = []
    for row in copies:
        call = flow.lists.single(row, target)
        source = parameter_of(flow, call.inputs[1].tensor, row) if len(call.inputs) == _BOTH else None
        if source is not None and source != target:
            found.append(_Mixing(row, source, is_whole=True))
    sources = {each.source for each in found}
    return found[-1] if len(found) == len(copies) >= _BOTH and len(sources) == 1 else None


_MAX_CHANGES = 6
_BOTH = 2
_ROUNDING = 1e-3


def _weights_of(case: Case, tensor: int, row: int) -> int | None:
    """The parameter whose values a tensor has; or a plain tensor that was made before training and that layers use."""
    number = parameter_of(case.dataflow, tensor, row)
    if number is not None or case.dataflow.log.tensors[tensor].role != "tensor":
        return number
    made = case.dataflow.newest_producer(tensor, row)
    return tensor if made is not None and made < case.histories.steps[0] else None


def _is_used_and_never_changed(case: Case, number: int) -> bool:
    flow, histories = case.dataflow, case.histories
    first = histories.steps[0]
    if number in histories.trained or flow.changes(number, first, len(flow.log.calls)):
        return False
    if any(row > first for row in flow.data_assignments.get(number, ())):
        return False
    return any(plain_name(flow.log.calls[row].function) in _FORWARD for row in flow.users(number, first))


def _may_be_a_reference(case: Case, sources: set[int]) -> bool:
    """Whether the copy was made of a model that had learned something, and a loss has a term without it: then it may be
    a frozen reference. A copy of random values is a teacher or target that should follow."""
    flow, histories = case.dataflow, case.histories
    if not any(_had_learned(case, source) for source in sources):
        return False
    for backward in histories.last_backward_of_each_line:
        since = flow.step_before(backward)
        for use in flow.log.calls[backward].roots:
            for term, row in live_terms(flow, backward, use.tensor):
                above = flow.ancestors(term, row, since)
                if sources.isdisjoint(given.tensor for each in above for given in flow.log.calls[each].inputs):
                    return True
    return False


def _had_learned(case: Case, number: int) -> bool:
    """Whether an optimizer had stepped before it was made, or its values were loaded."""
    flow, histories = case.dataflow, case.histories
    made, first = histories.made_by(number), histories.steps[0]
    loaded = (plain_name(flow.log.calls[row].function) for row in flow.changes(number, -1, len(flow.log.calls)))
    return (made is not None and made > first) or "copy" in loaded


_FORWARD = frozenset({
    "linear", "matmul", "conv1d", "conv2d", "conv3d", "embedding", "layer_norm", "batch_norm", "group_norm", "mul", "t",
    "multi_head_attention_forward", "lstm", "gru",
})  # fmt: skip
