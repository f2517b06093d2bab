"""GV724."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class StepsFromTheStart(Rule):
    """Steps that a program makes by hand all begin at the same tensors: only the last one counts.

    What it finds
    -------------
    Three or more steps of a line in a row, as in the inner loop of meta-learning or in an attack: the gradient is that
    of the last result, perhaps clamped, and it moves the tensor before the first step. A step that is corrected once,
    as in extragradient methods, is left alone. Also steps of which each begins at the same tensor, with the gradient of
    that tensor, where nothing ever uses the results of most of them.

    Why it matters
    --------------
    All steps but the last are lost: five inner steps move the weights by no more than one does.

    Example
    -------
    slow = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([slow], lr=0.1)
    for task in range(3):
        x = torch.randn(8, 3)
        fast = slow
        for step in range(4):
            loss = (x @ fast - x.sum(1)).square().mean()
            (gradient,) = torch.autograd.grad(loss, fast, create_graph=True)
            fast = slow - 0.1 * gradient
        optimizer.zero_grad()
        (x @ fast - x.sum(1)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    slow = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([slow], lr=0.1)
    for task in range(3):
        x = torch.randn(8, 3)
        fast = slow
        for step in range(4):
            loss = (x @ fast - x.sum(1)).square().mean()
            (gradient,) = torch.autograd.grad(loss, fast, create_graph=True)
            fast = fast - 0.1 * gradient
        optimizer.zero_grad()
        (x @ fast - x.sum(1)).square().mean().backward()
        optimizer.step()
    """

    code = "GV724"
    name = "steps_from_the_start"
    severity = "warning"
    yields_to = ("adapted_and_not_used",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        made: dict[int | None, list[_Step]] = defaultdict(list)
        for step in _steps(flow):
            made[flow.log.calls[step.call].call_site].append(step)
        restarted = ([step for step in steps if step.restarts >= _MIN_RESTARTS] for steps in made.values())
        for steps in filter(None, restarted):
            in_a_row = max(step.restarts for step in steps) + 1
            yield self._finding(
                flow,
                steps,
                f"{in_a_row:,} steps in a row move the same tensor by their gradient, the one before the first step, "
                "and not the tensor that the gradient is of",
                "move the result of the step before: w = w - lr * g, with the w that autograd.grad() got",
                {"steps": in_a_row, "times": len(steps)},
            )
        for steps in filter(None, (_never_used(flow, steps) for steps in made.values())):
            yield self._finding(
                flow,
                steps,
                f"{len(steps):,} times a step by hand begins again at the tensor from before, and nothing uses the "
                "result of the step before it",
                "compute the loss with the result of the step before, and take the gradient of that: w = w - lr * g",
                {"unused": len(steps)},
            )

    def _finding(self, flow: Dataflow, steps: list[_Step], message: str, fix: str, evidence: dict[str, int]) -> Finding:
        return self.finding(
            message,
            symptom="grad_wrong",
            why="each of these steps throws the one before away, and only the last one counts",
            fix=fix,
            location=location_of_call(flow, steps[0].call),
            tensors=names_of(flow, dict.fromkeys(step.base for step in steps)),
            evidence=evidence,
        )


_MIN_RESTARTS = 2
_GRAD = "torch.autograd.grad"
_SUBTRACTS = frozenset({"sub", "add", "sub_", "add_", "__rsub__", "subtract"})
_CALLS_BETWEEN = 4
"""Between a gradient and its subtraction: a learning rate, a sign, clipping."""


@dataclass(frozen=True)
class _Step:
    call: int
    base: int
    """The tensor from which a gradient was subtracted."""
    result: int
    restarts: int
    """How many steps in a row, up to this one, began at `base` although their gradient was that of a later tensor."""


def _steps(flow: Dataflow) -> Iterator[_Step]:
    """The steps that the program makes by hand with gradients of ``autograd.grad``, in order.

    Tensors are compared by their memory: `torch.func` wraps them anew.
    """
    made: dict[int, _Step] = {}
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or call.function != _GRAD or len(call.inputs) != 1 + len(call.outputs):
            continue
        for of, gradient in zip(call.inputs[1:], call.outputs, strict=True):
            found = _subtraction(flow, gradient.tensor, row)
            if found is None:
                continue
            number, base, result = found
            before, site = _step_behind(flow, of.tensor, row, made), flow.log.calls[number].call_site
            is_restart = before is not None and flow.log.calls[before.call].call_site == site
            restarts = 0
            if before is not None and is_restart and flow.memory_of(before.base) == flow.memory_of(base):
                restarts = before.restarts + 1
            step = _Step(number, base, result, restarts)
            made[flow.memory_of(result)] = step
            yield step


def _step_behind(flow: Dataflow, tensor: int, row: int, made: dict[int, _Step]) -> _Step | None:
    """The step that made a tensor, perhaps moved back into its bounds, as an attack does after each of its steps."""
    waiting, looked = [(tensor, row)], 0
    while waiting and looked < _CALLS_BEHIND:
        given, before = waiting.pop()
        found, looked = made.get(flow.memory_of(given)), looked + 1
        if found is not None:
            return found
        number = flow.newest_producer(given, before)
        call = None if number is None else flow.log.calls[number]
        if number is not None and call is not None and plain_name(call.function) in _BOUNDS:
            waiting += [(use.tensor, number) for use in call.inputs]
    return None


_CALLS_BEHIND = 12
_BOUNDS = frozenset({
    "clamp", "clip", "clamp_min", "clamp_max", "minimum", "maximum", "min", "max", "add", "sub", "where", "detach",
    "clone", "requires_grad", "data",
})  # fmt: skip


def _never_used(flow: Dataflow, steps: list[_Step]) -> list[_Step]:
    """The steps of a line whose results nothing uses, if the next one begins at the same values, and these are as many
    as the others at least; else none."""
    last = dict[int, _Step]()
    found = list[_Step]()
    for step in steps:
        before = last.get(step.base)
        is_again = before is not None and not flow.changes(step.base, before.call, step.call)
        if before is not None and is_again and not _users(flow, before.result, before.call):
            found.append(before)
        last[step.base] = step
    return found if len(found) >= _MIN_UNUSED and 2 * len(found) >= len(steps) else []


_MIN_UNUSED = 4


def _subtraction(flow: Dataflow, gradient: int, row: int) -> tuple[int, int, int] | None:
    """The call that subtracts a gradient from a tensor, perhaps scaled, that tensor, and the result."""
    given = gradient
    for _ in range(_CALLS_BETWEEN):
        users = _users(flow, given, row)
        if not users:
            return None
        row, given = users[0]
        call = flow.lists.single(row, given)
        others = [use.tensor for use in call.inputs if use.tensor != given]
        if plain_name(call.function) in _SUBTRACTS and len(others) == 1 and len(call.outputs) == 1:
            is_in_place = flow.memory_of(call.outputs[0].tensor) == flow.memory_of(others[0])
            return None if is_in_place else (row, others[0], call.outputs[0].tensor)
        if others or len(call.outputs) != 1:
            return None
        given = call.outputs[0].tensor
    return None


def _users(flow: Dataflow, tensor: int, after: int) -> list[tuple[int, int]]:
    """The first call that uses a tensor, or what `torch.func` made of it; with the tensor that it uses."""
    same = flow.sharing_memory(tensor)
    same = same if len(same) < _MOST_WRAPPERS else (tensor,)
    found = [(user, each) for each in same for user in flow.users(each, after)[:1]]
    return sorted(found)[:1]


_MOST_WRAPPERS = 20
