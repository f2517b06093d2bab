"""What trains parameters: the terms of all losses of a program, and whether steps simply go down their gradients."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import GIVES_A_GRADIENT, ParameterHistories
from gradviz.analysis.rules.bases.losses.signed_terms import MAX_TERMS, Term, operands, signed_terms
from gradviz.graph.call_log import Call


class Objective:
    """The terms of the loss of one backward call."""

    def __init__(self, histories: ParameterHistories, backward: int) -> None:
        self.backward = backward
        self._histories = histories
        self._leaves: dict[int, frozenset[int]] = {}
        flow, roots = histories.flow, histories.log.calls[backward].roots
        self.terms = [term for use in roots for term in signed_terms(flow, backward, use.tensor)]

    @property
    def is_whole(self) -> bool:
        """Whether all terms are known; there may be too many."""
        return len(self.terms) < MAX_TERMS

    @cached_property
    def last_terms(self) -> list[Term]:
        """The terms that are no sums of others."""
        return [term for term in self.terms if not any(operands(self._histories.flow, term.row))]

    def takes_beside(self, leaf: int, rows: set[int]) -> bool:
        """Whether the loss depends on a leaf in another way than through these terms."""
        calls = self._histories.log.calls
        if any(
            use.tensor == leaf and rows.isdisjoint(term.path)
            for term in self.terms
            for use in calls[term.row].live_inputs
        ):
            return True
        return any(leaf in self.leaves_of(term) for term in self.last_terms if rows.isdisjoint(term.path))

    def leaves_of(self, term: Term) -> frozenset[int]:
        """The trained parameters that a term reaches."""
        if term.row not in self._leaves:
            uses = self._histories.log.calls[term.row].live_inputs
            leaves, _ = self._histories.live_leaves((use.tensor for use in uses), term.row)
            leaves |= {use.tensor for use in uses if use.is_live_leaf}
            self._leaves[term.row] = leaves & self._histories.trained
        return self._leaves[term.row]


def objectives(case: Case) -> list[Objective]:
    """The last loss of each kind after which an optimizer steps."""
    return [
        Objective(case.histories, rows[-1])
        for rows in backward_calls_by_kind(case.histories)
        if case.dataflow.has_step_after(rows[-1])
    ]


def named_objectives(case: Case) -> list[Objective]:
    """The same of the last calls of each kind at which the variables of functions were named."""
    named = (named_call(case.dataflow, rows) for rows in backward_calls_by_kind(case.histories))
    return [Objective(case.histories, row) for row in named if row is not None and case.dataflow.has_step_after(row)]


def named_call(flow: Dataflow, rows: list[int]) -> int | None:
    """The last of some backward calls that is the first, second, fourth, eighth ... of the run."""
    numbers = [(row, flow.log.calls[row].name or "") for row in rows]
    named = [row for row, name in numbers if name.isdigit() and not int(name) & (int(name) - 1)]
    return named[-1] if named else None


def backward_calls_by_kind(histories: ParameterHistories) -> list[list[int]]:
    """The backward calls of each line that reach the same leaves, in order: one line may serve several losses."""
    kinds: dict[tuple[int | None, frozenset[int]], list[int]] = defaultdict(list)
    for row, leaves in histories.reached_by.items():
        call = histories.log.calls[row]
        if call.function.endswith(".backward"):
            kinds[call.call_site, leaves].append(row)
    return sorted(kinds.values(), key=lambda rows: rows[-1])[-_MOST_KINDS:]


_MOST_KINDS = 30


def leaves_with_other_gradients(histories: ParameterHistories) -> set[int]:
    """The leaves whose gradient a program also asks for with ``autograd.grad()``, to use it as it likes."""
    calls = histories.log.calls
    asked = (leaves for row, leaves in histories.reached_by.items() if not calls[row].function.endswith(".backward"))
    return set().union(*asked)


def is_plain_descent(case: Case, objective: Objective, term: Term) -> bool:
    """Whether the steps only go down the gradient of a term, which reaches nothing but parameters of one optimizer.

    False where a program turns gradients around, trains an adversary through a fixed model, or puts its parameters
    back to others; and where it says so: unlearning, attacks, ascent.
    """
    histories = case.histories
    leaves = objective.leaves_of(term)
    through, has_custom = passed_by_gradient(case.dataflow, term.row)
    owners = {histories.optimizers_of(leaf) for leaf in leaves | through}
    optimizers = [case.dataflow.log.optimizers[each] for owner in owners for each in owner]
    return (
        len(owners) == 1
        and () not in owners
        and not has_custom
        and not any(optimizer.maximizes for optimizer in optimizers)
        and all(histories.tensor(leaf).role == "parameter" for leaf in leaves)
        and not has_turned_gradients(case.dataflow)
        and not _is_turned(case.dataflow, objective.backward)
        and not any(_is_put_back(case, leaf) for leaf in leaves)
        and not is_on_purpose(case)
    )


_ON_PURPOSE = re.compile("unlearn|forget_|ascent|ascend|advers|attack|maximi[sz]", re.IGNORECASE)
_HOOKS = ("register_hook", "register_full_backward_hook", "register_post_accumulate_grad_hook")


def passed_by_gradient(flow: Dataflow, row: int) -> tuple[frozenset[int], bool]:
    """The parameters that the gradient of a call passes, trained or not, and whether it passes custom functions."""
    parameters, has_custom = set[int](), False
    waiting, seen = [row], {row}
    while waiting:
        row = waiting.pop()
        call = flow.log.calls[row]
        has_custom |= call.kind == "custom"
        parameters.update(use.tensor for use in call.inputs if flow.log.tensors[use.tensor].role == "parameter")
        for use in call.live_inputs:
            made = None if use.is_live_leaf else flow.newest_producer(use.tensor, row)
            if made is not None and made not in seen:
                seen.add(made)
                waiting.append(made)
    return frozenset(parameters), has_custom


def has_maximizing_optimizer(flow: Dataflow) -> bool:
    """Whether some optimizer goes up the gradient: signs of the terms of its loss mean the opposite."""
    return any(each.maximizes for each in flow.log.optimizers)


def has_turned_gradients(flow: Dataflow) -> bool:
    """Whether the program sets or negates gradients, or registers hooks that may."""
    return any(_turns_gradients(flow, row, call) for row, call in enumerate(flow.log.calls))


def _turns_gradients(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call sets or negates gradients, or registers a hook that may."""
    if call.function == GIVES_A_GRADIENT or call.function.endswith(_HOOKS):
        return True
    is_negation = call.function.endswith(("neg_", "negative_", "mul_", "__imul__", "_foreach_neg_"))
    if not is_negation or not any(flow.log.tensors[use.tensor].gradient_of is not None for use in call.changed):
        return False
    return "mul" not in call.function or not _is_by_positive_factor(flow, row, call)


def _is_by_positive_factor(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call multiplies in place by nothing below zero, as the clipping of norms does."""
    changed = {use.tensor for use in call.changed}
    factors = [flow.values_of(use, row) for use in call.inputs if use.tensor not in changed]
    numbers = [value for value in call.scalars.values() if isinstance(value, int | float)]
    lowest = [None if each is None else each.minimum for each in factors]
    return bool(lowest or numbers) and all(each is not None and each >= 0 for each in (*lowest, *numbers))


def _is_turned(flow: Dataflow, backward: int) -> bool:
    """Whether a backward call began with gradients that the program passed, and that are not all positive."""
    given: Iterable[float | None] = (
        values.minimum
        for use in flow.log.calls[backward].inputs
        if use.place.startswith("gradient") and (values := flow.values_of(use, backward)) is not None
    )
    return any(lowest is None or lowest < 0 for lowest in given)


def _is_put_back(case: Case, leaf: int) -> bool:
    """Whether something other than a step changes a parameter between backward calls."""
    flow, calls = case.dataflow, case.histories.backward_calls
    first, last = calls[0], calls[-1]
    changed = any(flow.log.calls[row].kind != "step" for row in flow.changes(leaf, first, last))
    return changed or any(first < row < last for row in flow.data_assignments.get(leaf, ()))


def is_on_purpose(case: Case, besides: str = "") -> bool:
    """Whether lines of the program speak of attacks, of what is unlearned, or of going up a gradient, apart from those
    with `besides`."""
    return any(_ON_PURPOSE.search(line) and not (besides and besides in line) for line in _lines(case))


def has_line_with(case: Case, words: re.Pattern[str]) -> bool:
    """Whether a line of the program has such words."""
    return any(words.search(line) for line in _lines(case))


def _lines(case: Case) -> Iterator[str]:
    return (line for of_file in case.capture.sources.values() for line in of_file.values())
