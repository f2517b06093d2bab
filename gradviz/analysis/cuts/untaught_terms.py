"""Terms of a loss that teach nobody: they go through the model of another optimizer, behind a cut.

The loss of a generator asks a discriminator about samples that were detached. The term reaches at most the
discriminator, whose gradients are cleared before its own backward, while the optimizer that steps next has only what
is behind the cut. Terms that are taken apart for a cut within one optimizer are those of `dead_terms`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from math import prod

from msgspec import Struct

from gradviz.analysis.cuts.dead_terms import constant_terms, live_terms
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.cuts import TAKES_ONLY_THE_SHAPE, Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.gradients.gradient_events import GradientEvents
from gradviz.analysis.parameters.parameter_histories import ParameterHistories

_HIDES_HISTORY = frozenset({"detach", "data", "no_grad", "inference", "numpy", "value", "rewrap"})
_MAX_KINDS = 30
_MIN_TIMES = 2


class UntaughtTerm(Struct, frozen=True):
    """One term of a loss, in the last backward call of its kind."""

    tensor: int
    cut: Cut
    entry: int
    """The first call behind the cut that uses the other model."""
    backward: int
    step: int
    """The step of an optimizer that follows."""
    times: int
    """How many backward calls of this kind there were."""
    wanted: tuple[int, ...]
    """Parameters behind the cut that this step changes."""
    passed: tuple[int, ...]
    """Parameters of the other model."""
    is_cut_for_another: bool
    """Whether another loss of the program, which trains the other model, has the same cut: there it is right."""


class _Origin(Struct, frozen=True):
    """What a term was computed from, up to parameters and cuts."""

    rows: tuple[int, ...]
    cuts: tuple[Cut, ...]

    def spelling(self, flow: Dataflow) -> frozenset[object]:
        """The same for terms that the same lines compute with the same numbers."""
        made = {
            row for each in self.rows for use in flow.log.calls[each].inputs for row in flow.producers(use.tensor, each)
        }
        # Zeros and ones of the shape of a result are the labels of two different terms.
        labels = {row for row in made if flow.log.calls[row].function in TAKES_ONLY_THE_SHAPE}
        calls = ((row, flow.log.calls[row]) for row in {*self.rows, *labels})
        return frozenset(
            (location_of_call(flow, row), call.function, *sorted(call.scalars.items())) for row, call in calls
        )


def untaught_terms(histories: ParameterHistories, events: GradientEvents) -> Iterator[UntaughtTerm]:
    """Those of the backward calls of each line that reach the same parameters, if it is so at all of them."""
    return _UntaughtTerms(histories, events).all()


class _UntaughtTerms:
    def __init__(self, histories: ParameterHistories, events: GradientEvents) -> None:
        self._histories = histories
        self._events = events
        self._flow = histories.flow
        self._log = histories.log
        self._cuts = {cut.call: cut for cut in self._flow.cuts if cut.kind in _HIDES_HISTORY}

    def all(self) -> Iterator[UntaughtTerm]:
        steps = self._histories.steps
        kinds = self._kinds if len(self._log.optimizers) > 1 else []
        for rows in kinds:
            backward, start = rows[-1], rows[-_MIN_TIMES]
            index = bisect_left(steps, backward)
            if index < len(steps) and self._log.calls[steps[index]].inside is None:
                for term, row in self._terms(backward):
                    found = self._untaught(rows, steps[index], term, row, start)
                    if found is not None:
                        yield found

    @cached_property
    def _kinds(self) -> list[list[int]]:
        """The backward calls of each line that reach the same parameters, if there are several."""
        kinds: dict[tuple[int | None, frozenset[int]], list[int]] = defaultdict(list)
        for row, leaves in self._histories.reached_by.items():
            call = self._log.calls[row]
            if call.function.endswith(".backward") and call.inside is None:
                kinds[call.call_site, leaves & self._histories.trained].append(row)
        repeated = [rows for rows in kinds.values() if len(rows) >= _MIN_TIMES]
        return repeated if len(repeated) <= _MAX_KINDS else []

    def _terms(self, backward: int) -> Iterator[tuple[int, int]]:
        """The terms of a loss with a history, and those without; each with the call that receives it."""
        for use in self._log.calls[backward].roots:
            yield from live_terms(self._flow, backward, use.tensor)
            yield from (
                (term, row)
                for row, term, exit_row in constant_terms(self._flow, backward, use.tensor)
                if exit_row is None
            )

    def _untaught(self, rows: list[int], step: int, term: int, row: int, start: int) -> UntaughtTerm | None:
        backward, leaves = rows[-1], self._histories.live_leaves([term], row)[0]
        own = self._stepped_next(backward)
        origin = self._origin(term, row, start)
        passed = self._passed(origin)
        if not passed or not own.isdisjoint(leaves | passed) or not self._is_frozen_or_reached(origin, passed, leaves):
            return None
        cut, wanted = self._cut_of(origin, own)
        entry = self._entry(origin, cut, passed)
        if (
            cut is None
            or entry is None
            or not self._is_never_used(rows, leaves)
            or self._leads_on(passed, own, backward)
        ):
            return None
        others = list(self._losses_of(passed, backward))
        spelling = origin.spelling(self._flow)
        if any(spelling == other.spelling(self._flow) for other in others if other.cuts):
            return None  # The same term teaches the other model elsewhere.
        is_shared = any(each.call_site == cut.call_site for other in others for each in other.cuts)
        return UntaughtTerm(
            term, cut, entry, backward, step, len(rows), tuple(sorted(wanted)), tuple(sorted(passed)), is_shared
        )

    def _stepped_next(self, backward: int) -> frozenset[int]:
        """What the optimizers hold that step after a backward call and before the next one."""
        steps, backwards = self._histories.steps, self._histories.backward_calls
        index = bisect_right(backwards, backward)
        end = backwards[index] if index < len(backwards) else len(self._log.calls)
        optimizers = {self._log.calls[row].optimizer for row in steps if backward < row < end}
        return frozenset().union(*(self._histories.held_by(each) for each in optimizers if each is not None))

    def _origin(self, term: int, before: int, since: int) -> _Origin:
        """Walks up from a term, as far as parameters, cuts and the last backward call of the same kind."""
        cuts: list[Cut] = []
        known: dict[int, int] = {}
        seen: set[int] = set()
        waiting = [(term, before)]
        while waiting:
            tensor, received = waiting.pop()
            for entry in self._flow.reentries_as(tensor, received):
                if entry.exit >= since and (
                    entry.certainty != "order" or shape_of(self._flow, entry.into) == shape_of(self._flow, entry.tensor)
                ):
                    cuts += [self._cuts[entry.exit]] if entry.exit in self._cuts else []
                    waiting.append((entry.tensor, entry.exit))
            for row in self._flow.further_producers(tensor, received, known):
                call = self._log.calls[row]
                if row < since or row in seen or call.kind not in _COMPUTE or call.function in TAKES_ONLY_THE_SHAPE:
                    continue
                seen.add(row)
                cut = self._cuts.get(row)
                if cut is not None and tensor in cut.dead_outputs:
                    cuts.append(cut)
                    continue
                waiting += [(use.tensor, row) for use in call.inputs if not self._is_trained(use.tensor)]
        return _Origin(tuple(sorted(seen - {cut.call for cut in cuts})), tuple(cuts))

    def _is_trained(self, tensor: int) -> bool:
        return tensor in self._histories.trained or self._log.tensors[tensor].role == "parameter"

    def _passed(self, origin: _Origin) -> frozenset[int]:
        """The trained parameters that a term was computed with behind all cuts."""
        uses = (use.tensor for row in origin.rows for use in self._log.calls[row].inputs)
        return self._histories.trained.intersection(uses)

    def _is_frozen_or_reached(self, origin: _Origin, passed: frozenset[int], leaves: frozenset[int]) -> bool:
        """Whether the term reaches the other model, or the other model is frozen."""
        if leaves:
            return not leaves.isdisjoint(passed)
        uses = (use for row in origin.rows for use in self._log.calls[row].inputs)
        return not any(use.requires_grad for use in uses)

    def _cut_of(self, origin: _Origin, own: frozenset[int]) -> tuple[Cut | None, frozenset[int]]:
        """The cut of more than one number, behind which there are parameters of the optimizer that steps next."""
        for cut in sorted(origin.cuts, key=lambda each: each.call, reverse=True):
            is_number = all(prod(shape_of(self._flow, each)) == 1 for each in cut.live_inputs)
            behind = self._histories.live_leaves(cut.live_inputs, cut.call)[0].union(cut.live_inputs) & own
            if behind and not is_number:
                return cut, behind
        return None, frozenset()

    def _entry(self, origin: _Origin, cut: Cut | None, passed: frozenset[int]) -> int | None:
        rows = (row for row in origin.rows if cut is not None and row > cut.call)
        return next((row for row in rows if any(use.tensor in passed for use in self._log.calls[row].inputs)), None)

    def _is_never_used(self, rows: list[int], leaves: frozenset[int]) -> bool:
        """Whether all gradients that these backward calls bring to trained leaves are cleared before a step."""
        for leaf in leaves & self._histories.trained:
            events = self._events.events.get(leaf, [])
            fates = [
                next((kind for _, kind in events[bisect_right(events, (row, "step")) :] if kind != "backward"), None)
                for row in rows
            ]
            if any(fate != "clear" for fate in fates[:-1]) or fates[-1] == "step":
                return False
        return True

    def _leads_on(self, passed: frozenset[int], own: frozenset[int], backward: int) -> bool:
        """Whether something else in this step went through the other model and has a gradient path to what steps."""
        since = self._flow.step_before(backward)
        rows = {row for each in passed for row in self._histories.forward_uses(each, since) if row < backward}
        inputs = {use.tensor: row for row in sorted(rows) for use in self._log.calls[row].inputs if use.has_grad_fn}
        return any(not own.isdisjoint(self._histories.live_leaves([each], row)[0]) for each, row in inputs.items())

    def _losses_of(self, passed: frozenset[int], backward: int) -> Iterator[_Origin]:
        """The terms from which the other model learns."""
        for rows in self._kinds:
            if rows[-1] != backward and not passed.isdisjoint(self._stepped_next(rows[-1])):
                yield from (self._origin(term, row, rows[-_MIN_TIMES]) for term, row in self._terms(rows[-1]))


_COMPUTE = frozenset({"operation", "custom", "compiled"})
