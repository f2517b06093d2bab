"""What happens to ``.grad`` of each parameter: filled by backward, used by a step, cleared.

The right order is *clear, backward (once or more), step*. Two wrong orders are found: a step that uses gradients that
an earlier step has used, and gradients that are cleared before a step. An optimizer with a closure makes many steps in
one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.values.origins import is_all_zero
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

Event = Literal["backward", "clear", "step"]
_MIN_MOVES = 2
_ASSIGNS_GRADIENT = "torch.Tensor.grad.__set__"


class ReusedGradients(Struct, frozen=True):
    """Steps that use gradients again. Calls are identified by their rows in the log."""

    tensors: tuple[int, ...]
    steps: int
    step: int
    """The first of them; inside of a ``step()`` with a closure, the first use of the changed tensor there."""
    backward: int
    """The last backward call before it."""
    clear: int | None
    """A call that clears gradients, but at the wrong time or not these; None if there is none."""
    clears_them: bool | None
    """Whether that call clears these; None if there is no such call."""


class DiscardedGradients(Struct, frozen=True):
    """Backward calls whose gradients are cleared before their use."""

    tensors: tuple[int, ...]
    backward_calls: int
    all_backward_calls: int
    backward: int
    """The first of them."""
    clear: int
    """The call that clears."""


class StaleReads(Struct, frozen=True):
    """Gradients that the program computes with, to which a backward was added after a step had used them."""

    tensors: tuple[int, ...]
    backward: int
    """The first backward that was added."""
    read: int
    """The first call that computes with the sum."""


class MovedBetween(Struct, frozen=True):
    """Leaves that the program moved between two backward calls, whose gradients a step uses together."""

    tensors: tuple[int, ...]
    move: int
    """The first call that moved one of them."""
    backward: int
    """The backward call after it."""
    steps: int


def used_together(events: list[tuple[int, Event]]) -> Iterator[list[int]]:
    """The backward calls whose gradients one step uses for the first time, all of them at each such step."""
    rows: list[int] = []
    for row, kind in events:
        if kind == "backward":
            rows.append(row)
            continue
        if kind == "step":
            yield rows
        rows = []


class GradientEvents:
    """The events of every leaf that is trained, by an optimizer or by hand."""

    def __init__(self, histories: ParameterHistories) -> None:
        self._histories = histories
        self._flow = histories.flow
        self._log = histories.log
        self._from_gradients: dict[int, bool] = {}

    @cached_property
    def events(self) -> dict[int, list[tuple[int, Event]]]:
        """By tensor: its events, in order. Leaves that hooks step during a backward are left out: hooks clear them
        there, unrecorded."""
        events: dict[int, list[tuple[int, Event]]] = defaultdict(list)
        for row in (*self._accumulating, *self._accumulating_in_closures):
            for tensor in self._histories.reached_by[row]:
                events[tensor].append((row, "backward"))
        for row, tensors in self._clears.items():
            for tensor in tensors & events.keys():
                events[tensor].append((row, "clear"))
        for tensor in list(events):
            events[tensor] += [(row, "step") for row in self._steps_of(tensor, events[tensor][0][0])]
        return {
            tensor: sorted(each)
            for tensor, each in events.items()
            if any(kind == "step" for _, kind in each) and tensor not in self._histories.stepped_by_hooks
        }

    @cached_property
    def _accumulating(self) -> list[int]:
        """Backward calls that add to ``.grad``, except those inside of a step."""
        return [row for row in self._backward_rows if self._log.calls[row].inside is None]

    @cached_property
    def _accumulating_in_closures(self) -> list[int]:
        """Backward calls in closures of torch's own optimizers; others may do anything between two of these."""
        return [row for row in self._backward_rows if self._is_in_step(row)]

    @cached_property
    def _backward_rows(self) -> list[int]:
        return [
            row for row in sorted(self._histories.reached_by) if self._log.calls[row].function.endswith(".backward")
        ]

    def _backward_before(self, row: int) -> int:
        """The last backward call before this call; 0 if there is none."""
        index = bisect_left(self._backward_rows, row)
        return self._backward_rows[index - 1] if index else 0

    def _is_in_step(self, row: int) -> bool:
        inside = self._log.calls[row].inside
        return inside is not None and self._log.calls[inside].function.startswith("torch.optim.")

    def _steps_of(self, tensor: int, first: int) -> list[int]:
        if tensor in self._histories.trained:
            steps = (row for row in self._step_rows.get(tensor, ()) if row > first)
            return [*steps, *self._moves_in_steps(tensor)]
        changes = self._flow.changes(tensor, first, len(self._log.calls))
        assigned = (row for row in self._flow.data_assignments.get(tensor, ()) if row > first)
        return [row for row in sorted({*changes, *assigned}) if self._is_computed_from_gradients(row)]

    def _is_computed_from_gradients(self, row: int) -> bool:
        """Whether a change is a step by hand: a copy that follows another model is changed, too, but by its values."""
        if row not in self._from_gradients:  # A call on a list of tensors is a change of each of them.
            self._from_gradients[row] = self._has_gradients_above(row)
        return self._from_gradients[row]

    def _has_gradients_above(self, row: int) -> bool:
        since = self._backward_before(row)
        calls, gradients = self._log.calls, self._histories.leaves_of_gradients
        above = (number for use in calls[row].inputs for number in self._flow.ancestors(use.tensor, row, since))
        return any(
            use.tensor in gradients
            for number in chain((row,), above)
            for use in (calls[number].inputs if calls[number].kind != "step" else ())
        )

    def _moves_in_steps(self, tensor: int) -> Iterator[int]:
        """In closures, the first use of the tensor after each change that the optimizer made within one step."""
        before: tuple[int | None, int | None] | None = None
        for row in self._flow.users(tensor) if self._accumulating_in_closures else ():
            call = self._log.calls[row]
            if self._is_in_step(row):
                now = call.inside, next(use.version for use in call.inputs if use.tensor == tensor)
                if before is not None and before[0] == now[0] and before != now:
                    yield row
                before = now

    @cached_property
    def _step_rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for row in self._histories.steps:
            for use in self._log.calls[row].inputs:
                rows[use.tensor].append(row)
        return rows

    @cached_property
    def _clears(self) -> dict[int, set[int]]:
        """By call: the leaves whose gradients it clears."""
        in_memory: dict[int, set[int]] = defaultdict(set)  # the gradients of all leaves may be parts of one tensor
        for gradient, leaf in self._histories.leaves_of_gradients.items():
            in_memory[self._flow.memory_of(gradient)].add(leaf)
        found: dict[int, set[int]] = {}
        for row, call in enumerate(self._log.calls):
            if call.kind == "zero_grad":
                found[row] = {use.tensor for use in call.inputs}
            elif call.function == _ASSIGNS_GRADIENT:
                if not self._is_assigned_from_gradients(row):
                    found[row] = {call.inputs[0].tensor}
            elif call.function.endswith(("zero_", ".fill_")):
                memories = (self._flow.memory_of(use.tensor) for use in call.changed)
                leaves = {leaf for memory in memories for leaf in in_memory.get(memory, ())}
                if leaves:
                    found[row] = leaves
            elif call.kind == "operation" and (leaves := self._become_zero(call)):
                found[row] = leaves
        return found

    def _become_zero(self, call: Call) -> set[int]:
        """The leaves of which a call changes the gradient, and leaves nothing but zeros: ``p.grad.mul_(0)``."""
        # Clipping changes gradients as well, and leaves zeros as they are.
        is_by_zero = call.function.endswith(("mul_", "__imul__")) and call.scalars.get("1") == 0
        if not is_by_zero and not call.function.endswith(("copy_", "__setitem__", "sub_", "__isub__")):
            return set()
        gradients = self._histories.leaves_of_gradients
        changed = (use for use in call.changed if use.values is not None and use.tensor in gradients)
        return {gradients[use.tensor] for use in changed if use.values is not None and is_all_zero(use.values)}

    def _is_assigned_from_gradients(self, row: int) -> bool:
        """Whether what becomes the gradient was computed from gradients of this step, ``p.grad /= ranks``, or from what
        came into being during its backward: hooks, whose calls are not recorded, compute one for each sample."""
        calls = self._log.calls
        since = self._backward_before(row)
        above = {n for use in calls[row].inputs[1:] for n in self._flow.ancestors(use.tensor, row, since)}
        # What zeros_like() gives has only the shape of a gradient, and grad() begins with ones that no call made.
        uses = (use for n in above if not calls[n].function.endswith("_like") for use in calls[n].inputs)
        used = {use.tensor for use in uses if not use.place.startswith("gradient")}
        return any(n in self._histories.leaves_of_gradients or self._is_new_and_not_made(n, since) for n in used)

    def _is_new_and_not_made(self, tensor: int, since: int) -> bool:
        """Whether a tensor is first used after a call, and none before that use made it: ``to()`` may return it
        later."""
        first = self._flow.users(tensor)[0]
        return first > since > 0 and not self._flow.is_made(tensor, first)

    # -- used again ----------------------------------------------------------------------------------------------

    @cached_property
    def reused(self) -> list[ReusedGradients]:
        """Steps with gradients that an earlier step has used, grouped by the call to blame."""
        groups: dict[tuple[int | None, bool | None], list[tuple[int, list[tuple[int, int, int]]]]] = defaultdict(list)
        for tensor, events in self.events.items():
            again = [each for each in _steps_that_use_again(events) if self._is_all_kept(each[0], each[1])]
            if again:
                groups[self._clear_to_blame(tensor, events, again[0])].append((tensor, again))
        return [
            ReusedGradients(
                tuple(tensor for tensor, _ in each),
                max(len(again) for _, again in each),
                each[0][1][0][1],
                each[0][1][0][2],
                clear,
                clears_them,
            )
            for (clear, clears_them), each in groups.items()
        ]

    def _is_all_kept(self, start: int, end: int) -> bool:
        """Whether the log has all calls between two rows: where some are missing, one may have cleared gradients."""
        missing = self._log.dropped_at
        return missing is None or not start < missing <= end

    def _clear_to_blame(
        self, tensor: int, events: list[tuple[int, Event]], again: tuple[int, int, int]
    ) -> tuple[int | None, bool | None]:
        """A call that clears other gradients between the two steps, or that clears this one at another time."""
        earlier, step, backward = again
        others = [row for row in self._clears if earlier < row < step]
        if others:
            # Of two calls that clear the same ones, that before the backward may be meant for these.
            twice = [row for row in others if row < backward and self._clears[row] == self._clears[others[0]]]
            return self._first_from_same_line(twice[-1] if twice else others[0]), False
        own = [row for row, kind in events if kind == "clear"]
        before = [row for row, cleared in self._clears.items() if tensor in cleared and row < events[0][0]]
        clear = next(iter(before or own), None)
        return (None, None) if clear is None else (clear, True)

    def _first_from_same_line(self, row: int) -> int:
        """The first call from the same line, so that several tensors share one finding."""
        line = self._flow.line_of(row)
        return next((other for other in self._clears if self._flow.line_of(other) == line), row)

    # -- moved ---------------------------------------------------------------------------------------------------

    @cached_property
    def moved_between(self) -> MovedBetween | None:
        """Leaves that move at each step between two backward calls that nothing clears."""
        found: dict[int, list[tuple[int, int]]] = {}
        for tensor, events in self.events.items():
            moves = []
            for (first, kind), (second, next_kind) in pairwise(events):
                if kind == next_kind == "backward":
                    move = self._move_between(tensor, first, second)
                    moves += [] if move is None else [(move, second)]
            steps = sum(kind == "step" for _, kind in events)
            if len(moves) >= _MIN_MOVES and len(moves) >= steps - 1:
                found[tensor] = moves
        if not found:
            return None
        move, backward = min(moves[0] for moves in found.values())
        return MovedBetween(tuple(found), move, backward, max(map(len, found.values())))

    def _move_between(self, tensor: int, first: int, second: int) -> int | None:
        changes = (*self._flow.changes(tensor, first, second), *self._flow.data_assignments.get(tensor, ()))
        own = (row for row in changes if first < row < second and self._log.calls[row].kind == "operation")
        return min((row for row in own if self._log.calls[row].inside is None), default=None)

    # -- read ----------------------------------------------------------------------------------------------------

    @cached_property
    def read_stale(self) -> list[StaleReads]:
        """Sums of gradients over a step that the program computes with, by the line of the backward."""
        found: dict[int | None, list[tuple[int, int, int]]] = defaultdict(list)
        for tensor, events in self.events.items():
            reads = self._reads.get(tensor, ())
            for backward, end in _backwards_after_a_step(events) if reads else ():
                index = bisect_right(reads, backward)
                if index < len(reads) and (end is None or reads[index] < end):
                    found[self._log.calls[backward].call_site].append((tensor, backward, reads[index]))
                    break
        return [
            StaleReads(tuple(dict.fromkeys(tensor for tensor, _, _ in each)), each[0][1], each[0][2])
            for each in found.values()
        ]

    @cached_property
    def _reads(self) -> dict[int, list[int]]:
        """By leaf: calls of the program itself that make other tensors of its gradient, of more than one number."""
        found: dict[int, list[int]] = defaultdict(list)
        for row, call in enumerate(self._log.calls):
            site = call.call_site
            if call.kind != "operation" or call.inside is not None or site is None or not call.outputs:
                continue
            if self._log.call_sites[site].is_library or self._only_changes_or_measures(row):
                continue
            for use in call.inputs:
                leaf = self._log.tensors[use.tensor].gradient_of
                if leaf is not None:
                    found[leaf].append(row)
        return found

    # -- discarded -----------------------------------------------------------------------------------------------

    @cached_property
    def discarded(self) -> DiscardedGradients | None:
        """Backward calls whose gradients are cleared before their use, if the program does so regularly: at half of
        them, or at all of some line but the last, which a step behind the loop may use."""
        known = [row for row in self._accumulating if not self._is_followed_by_unknown(row)]
        found = [(row, clear, leaves) for row in known for clear, leaves in self._discarded_by(row)]
        if 2 * len(found) < len(known):
            calls = self._log.calls
            all_of_line = Counter(calls[row].call_site for row in known)
            discarded = Counter(calls[row].call_site for row, _, _ in found)
            regular = {site for site, count in discarded.items() if count > 1 and all_of_line[site] - count <= 1}
            found = [each for each in found if calls[each[0]].call_site in regular]
        if len(found) < 2:
            return None
        row, clear, leaves = found[0]
        return DiscardedGradients(tuple(sorted(leaves)), len(found), len(known), row, clear)

    def is_cleared_unused(self, backward: int) -> bool:
        """Whether all gradients of trained leaves that a backward made are cleared before a step has used them."""
        leaves = self._histories.reached_by[backward] & self.events.keys()
        return bool(leaves) and all(self._next_use(leaf, backward) is not None for leaf in leaves)

    def _is_followed_by_unknown(self, row: int) -> bool:
        """Whether calls that may use the gradients of a backward, before the next one, are not in the log."""
        rows = self._flow.rows_of_kind("backward")
        index = bisect_right(rows, row)
        return index < len(rows) and self._log.calls[rows[index]].misses_calls

    def _discarded_by(self, row: int) -> Iterator[tuple[int, frozenset[int]]]:
        """The call that clears all gradients of trained leaves from one backward call, and these leaves.

        If the gradient of an input was used (a penalty, an adversarial example), the backward had another purpose.
        """
        reached = frozenset(self._histories.reached_by[row])
        leaves = reached & self.events.keys()
        clears = [self._next_use(leaf, row) for leaf in leaves]
        rows = [clear for clear in clears if clear is not None]
        if rows and len(rows) == len(clears) and not self._is_looked_at(reached, row, min(rows)):
            yield min(rows), leaves

    def _next_use(self, leaf: int, backward: int) -> int | None:
        """The call that clears the gradient before a step has used it; None if there is none."""
        events = self.events[leaf]
        for row, kind in events[bisect_right(events, (backward, "step")) :]:
            if kind != "backward":
                return row if kind == "clear" else None
        return None

    def _is_looked_at(self, leaves: frozenset[int], start: int, end: int) -> bool:
        """Whether the program itself, or a scaler of mixed precision, uses the gradients, other than to change them or
        to measure their size, as clipping does; or a library moves the leaves along them, before it takes others."""
        for row in range(start + 1, end):
            call = self._log.calls[row]
            if "amp_" in call.function:
                return True
            is_move = call.kind == "operation" and any(use.tensor in leaves for use in call.changed)
            if is_move and self._is_computed_from_gradients(row):
                return True
            site = call.call_site
            is_own = site is not None and not self._log.call_sites[site].is_library
            if (
                is_own
                and row not in self._clears
                and not self._only_changes_or_measures(row)
                and any(self._log.tensors[use.tensor].gradient_of in leaves for use in call.inputs)
            ):
                return True
        return False

    def _only_changes_or_measures(self, row: int) -> bool:
        """Whether all results of a call are gradients, or single numbers."""
        tensors = [self._log.tensors[use.tensor] for use in self._log.calls[row].outputs]
        return bool(tensors) and all(each.gradient_of is not None or each.facts.elements == 1 for each in tensors)


def _backwards_after_a_step(events: list[tuple[int, Event]]) -> Iterator[tuple[int, int | None]]:
    """Backward calls that are added to what a step has used, each with the event that ends this; None at the end."""
    # A step by hand may use a copy of what was cleared before it.
    is_used = has_gradient = False
    added: list[int] = []
    for row, kind in events:
        if kind != "backward":
            yield from ((backward, row) for backward in added)
            is_used = has_gradient = kind == "step" and has_gradient
            added = []
            continue
        has_gradient = True
        if is_used:
            added.append(row)
    yield from ((backward, None) for backward in added)


def _steps_that_use_again(events: list[tuple[int, Event]]) -> Iterator[tuple[int, int, int]]:
    """Steps that use a gradient again: the earlier step, the step, and the backward call between them."""
    used_by: int | None = None
    backward: int | None = None
    has_gradient = False
    for row, kind in events:
        if kind == "clear":
            used_by, backward, has_gradient = None, None, False
        elif kind == "backward":
            backward, has_gradient = row, True
        elif has_gradient:
            if used_by is not None and backward is not None and backward > used_by:
                yield used_by, row, backward
            used_by = row
