"""GV772."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.shallow_copies import ShallowCopy, shallow_copies


class ShallowCopyChanged(Rule):
    """A list of tensors is copied, and its tensors are changed in place, so that the first list changes as well.

    What it finds
    -------------
    ``new = list(grads)``, ``grads[:]`` or ``copy.copy(grads)`` whose tensors a line changes in place (``new[i] -= ..``)
    where another tensor of the list is then changed by one that has changed already, as in projections of the
    gradients of several losses on each other. Likewise where a line mixes or compares the tensors of both lists, and
    each of them is one with itself: ``slow.lerp_(fast, 0.1)`` after ``fast = slow[:]``. Dicts are told as well.

    Why it matters
    --------------
    ``list()`` copies references. What should be the gradients of before are those that were projected already, and the
    result depends on the order of the losses.

    Example
    -------
    body, heads = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
    for step in range(3):
        out = heads(body(torch.randn(16, 4)))
        losses = [out[:, 0].mean(), -out[:, 0].mean() + out[:, 1].square().mean()]
        grads = [torch.autograd.grad(each, body.weight, retain_graph=True)[0].flatten() for each in losses]
        new = list(grads)
        for i in range(2):
            new[i] -= (new[i] @ grads[1 - i]).clamp(max=0) / grads[1 - i].norm() ** 2 * grads[1 - i]
        optimizer.zero_grad()
        sum(losses).backward()
        body.weight.grad = sum(new).view(8, 4)
        optimizer.step()

    Instead
    -------
    body, heads = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
    for step in range(3):
        out = heads(body(torch.randn(16, 4)))
        losses = [out[:, 0].mean(), -out[:, 0].mean() + out[:, 1].square().mean()]
        grads = [torch.autograd.grad(each, body.weight, retain_graph=True)[0].flatten() for each in losses]
        new = [each.clone() for each in grads]
        for i in range(2):
            new[i] -= (new[i] @ grads[1 - i]).clamp(max=0) / grads[1 - i].norm() ** 2 * grads[1 - i]
        optimizer.zero_grad()
        sum(losses).backward()
        body.weight.grad = sum(new).view(8, 4)
        optimizer.step()
    """

    code = "GV772"
    name = "shallow_copy_changed"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.reached_by else ():
            copies = list(shallow_copies(tree))
            met = _calls_at(case.dataflow, file, {line for each in copies for line in each.together_at})
            changes = _changes(case.dataflow, file, {line for each in copies for line in each.changed_at})
            for each in copies:
                rows = [row for line in each.changed_at for row in changes.get(line, ())]
                used = _changed_by_changed(case.dataflow, sorted(rows))
                if used is not None:
                    where = f"line {each.changed_at[0]} changes them in place"
                    does = f"{where}, and then takes a changed tensor for one of {each.source}"
                    yield self._finding(file, each, does, location_of_call(case.dataflow, used))
                    continue
                line = next((line for line in each.together_at if _is_with_itself(case.dataflow, met[line])), None)
                if line is not None:
                    does = f"line {line} takes them for others, and combines each tensor with itself"
                    yield self._finding(file, each, does, Location(file, line))

    def _finding(self, file: str, copied: ShallowCopy, does: str, used: Location | None) -> Finding:
        return self.finding(
            f"{copied.name} has the same tensors as {copied.source}, and no copies of them: {does}",
            symptom="grad_wrong",
            why="list(), dict(), a slice and copy.copy() copy references, and not the tensors",
            fix=f"copy the tensors: [each.detach().clone() for each in {copied.source}]",
            location=Location(file, copied.line),
            symptom_location=used,
        )


_COMBINES = frozenset({"sub", "add", "isub", "iadd", "lerp"})
_SCALES = frozenset({"mul", "div", "truediv"})
_MAX_ROWS = 2_000


def _calls_at(flow: Dataflow, file: str, lines: set[int]) -> dict[int, list[int]]:
    """By line: the calls that combine tensors."""
    found: dict[int, list[int]] = {line: [] for line in lines}
    for row, call in enumerate(flow.log.calls if lines else ()):
        if len(call.inputs) > 1 and call.kind == "operation":
            location = location_of_call(flow, row)
            if location is not None and location.file == file and location.line in lines:
                found[location.line].append(row)
    return found


def _is_with_itself(flow: Dataflow, rows: list[int]) -> bool:
    """Whether calls mix tensors, or subtract them from each other, and each of them gets one tensor twice."""
    singles = (each for row in rows[:_MAX_ROWS] for each in flow.lists.singles(row))
    pairs = [each.inputs[:2] for each in singles if plain_name(each.function) in _MIXES and len(each.inputs) > 1]
    return bool(pairs) and all(one.tensor == other.tensor for one, other in pairs)


_MIXES = frozenset({"lerp", "sub", "copy"})


def _changes(flow: Dataflow, file: str, lines: set[int]) -> dict[int, list[int]]:
    """By line: the calls that change a tensor in place."""
    found: dict[int, list[int]] = {}
    for row, call in enumerate(flow.log.calls if lines else ()):
        if call.changed and call.inputs:
            location = location_of_call(flow, row)
            if location is not None and location.file == file and location.line in lines:
                found.setdefault(location.line, []).append(row)
    return found


def _changed_by_changed(flow: Dataflow, rows: list[int]) -> int | None:
    """A call that changes one tensor by another one, which an earlier of these calls has changed in the same step."""
    changed: dict[int, int] = {}
    for row in rows[:_MAX_ROWS]:
        call = flow.log.calls[row]
        target, step = call.inputs[0].tensor, flow.step_before(row)
        for use in call.inputs[1:]:
            for tensor in (use.tensor, *_scaled(flow, use.tensor, row)):
                is_other = tensor != target and changed.get(tensor) == step
                if is_other and plain_name(call.function).strip("_") in _COMBINES:
                    return row
        changed[target] = step
    return None


def _scaled(flow: Dataflow, tensor: int, row: int) -> Iterator[int]:
    """What a tensor is a multiple of."""
    for _, call in flow.makers(tensor, row, 2):
        if plain_name(call.function) in _SCALES:
            yield from (use.tensor for use in call.inputs)
