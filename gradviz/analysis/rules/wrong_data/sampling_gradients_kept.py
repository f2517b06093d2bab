"""GV633."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.gradient_events import GradientEvents, used_together
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule


class SamplingGradientsKept(Rule):
    """A step also uses the gradients of a loop that only sampled, or attacked, an input.

    What it finds
    -------------
    Two or more ``backward()`` calls from one line, each of which is made to move an input by its ``.grad``, and which
    leave gradients in the parameters, too; then the ``backward()`` of the loss and a step, and nothing that clears the
    parameters in between.

    Why it matters
    --------------
    ``backward()`` adds to ``.grad`` of everything that requires grad. The step of an energy-based model, or of training
    with adversarial examples, then follows all iterations of the loop instead of the loss alone.

    Example
    -------
    energy = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(energy.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(8, 2, requires_grad=True)
        for iteration in range(3):
            energy(x).sum().backward()
            x = (x - 0.1 * x.grad + 0.01 * torch.randn(8, 2)).detach().requires_grad_()
        loss = energy(torch.randn(8, 2)).square().mean() + (energy(x.detach()) - 1).square().mean()
        loss.backward()
        optimizer.step()

    Instead
    -------
    energy = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(energy.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(8, 2, requires_grad=True)
        for iteration in range(3):
            slope = torch.autograd.grad(energy(x).sum(), x)[0]
            x = (x - 0.1 * slope + 0.01 * torch.randn(8, 2)).detach().requires_grad_()
        loss = energy(torch.randn(8, 2)).square().mean() + (energy(x.detach()) - 1).square().mean()
        loss.backward()
        optimizer.step()
    """

    code = "GV633"
    name = "sampling_gradients_kept"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        if histories.reached_by:
            for kept in _kept_gradients(histories, case.gradient_events):
                yield self._finding(case, kept)

    def _finding(self, case: Case, kept: _Kept) -> Finding:
        flow = case.dataflow
        own = location_of_call(flow, kept.own)
        return self.finding(
            f"{kept.steps:,} steps of {case.histories.together(kept.tensors)} also use the gradients of this "
            f"backward(), which is called up to {kept.calls:,} times in a loop that moves its input, and not cleared "
            f"before the backward(){at_line(own)}",
            symptom="grad_wrong",
            why="backward() also adds to .grad of the parameters, though only the gradient of the input is wanted",
            fix="use torch.autograd.grad(energy(x).sum(), x)[0] here, or call optimizer.zero_grad() after the loop",
            location=location_of_call(flow, kept.backward),
            symptom_location=own,
            tensors=names_of(flow, kept.tensors),
            evidence={"steps": kept.steps, "calls": kept.calls},
        )


class _Kept(Struct, frozen=True):
    """Gradients that a loop left in parameters, and that steps use."""

    tensors: tuple[int, ...]
    backward: int
    own: int
    """The backward after the loop whose gradients are added to them."""
    calls: int
    """The most calls of the loop before a step."""
    steps: int


_MIN_CALLS = 2
_MIN_STEPS = 2
_Loop = tuple[int, int, int]
"""The last backward of a loop, the first backward after it, and how many calls the loop made."""


def _kept_gradients(histories: ParameterHistories, gradient_events: GradientEvents) -> Iterator[_Kept]:
    """One for each line of a loop."""
    moves: dict[tuple[int, int], bool] = {}
    lines: dict[int | None, dict[int, list[_Loop]]] = defaultdict(dict)
    for tensor, events in gradient_events.events.items():
        if histories.tensor(tensor).role != "parameter":
            continue
        loops = [loop for each in used_together(events) for loop in _loops(histories, each, moves)]
        for last, own, calls in loops:
            lines[histories.log.calls[last].call_site].setdefault(tensor, []).append((last, own, calls))
    for by_tensor in lines.values():
        found = {tensor: loops for tensor, loops in by_tensor.items() if len(loops) >= _MIN_STEPS}
        if found:
            last, own, _ = next(iter(found.values()))[-1]
            most = max(calls for loops in found.values() for _, _, calls in loops)
            yield _Kept(tuple(found), last, own, most, max(map(len, found.values())))


def _loops(histories: ParameterHistories, rows: list[int], moves: dict[tuple[int, int], bool]) -> Iterator[_Loop]:
    """Runs of backward calls from one line, each of which moves the input of the next one, before another line's."""
    calls, first = histories.log.calls, 0
    for index in range(1, len(rows)):
        if calls[rows[index]].call_site == calls[rows[first]].call_site:
            continue
        run = rows[first:index]
        if len(run) >= _MIN_CALLS:
            for pair in pairwise(run):
                if pair not in moves:
                    moves[pair] = _moves_the_input(histories, *pair)
            if all(moves[pair] for pair in pairwise(run)):
                yield run[-1], rows[index], len(run)
        first = index


def _moves_the_input(histories: ParameterHistories, row: int, following: int) -> bool:
    """Whether what a backward left in ``.grad`` of a leaf that is no parameter makes the input of the next one."""
    flow, log = histories.flow, histories.log
    leaves = {leaf for leaf in histories.reached_by[row] if log.tensors[leaf].role != "parameter"}
    if not leaves:
        return False
    for number in range(row + 1, following):
        call = log.calls[number]
        if call.kind == "step" and not leaves.isdisjoint(use.tensor for use in call.inputs):
            return True
        for use in call.inputs if call.kind == "operation" else ():
            leaf = log.tensors[use.tensor].gradient_of
            if leaf is not None and leaf in leaves and _reaches(histories, use.tensor, leaf, number, following):
                return True
    return any(row < number < following for leaf in leaves for number in flow.data_assignments.get(leaf, ()))


def _reaches(histories: ParameterHistories, gradient: int, leaf: int, row: int, following: int) -> bool:
    """Whether a gradient, as a call takes it, goes into the memory of its leaf, or into the next backward."""
    flow, calls = histories.flow, histories.log.calls
    own = set(flow.sharing_memory(leaf))
    below = flow.descendants(gradient, row - 1, following + 1)
    return following in below or any(use.tensor in own for each in below for use in calls[each].changed)
