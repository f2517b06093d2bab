"""States of recurrent computations of any spelling that are cut off at each time step of one backward call.

Between two such cuts the same weights are used once, on the state; the loss uses every step, or the last one where each
takes another part of one sequence; and nothing but the state, without its history, connects the steps. States that the
loss itself compares with a target are left out: a model that is unrolled on its own predictions is cut so on purpose.
So are matrices of tokens, as of the memory between segments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_CELLS
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY


class StateCut(Struct, frozen=True):
    """The cuts of one line before one backward call."""

    cut: int
    """The last of them."""
    used: int
    """The call after it that takes the state together with weights."""
    times: int
    is_last: bool
    """Whether the loss only uses the last step."""


class _TimeStep(Struct, frozen=True):
    """What lies between two cuts."""

    used: int
    """The call that takes the state together with weights."""
    weights: frozenset[int]
    is_reached: bool
    """Whether the backward call reaches it."""
    parts: frozenset[tuple[int, str]]
    """Of which tensors it takes a part by a number, and which part."""


_KINDS = frozenset({"detach", "data"})
_MIN_CUTS = 4
_MAX_CUTS = 200
_RANK = 2
_WEIGHTED = frozenset({"linear", "matmul", "mm", "addmm", "einsum", *RECURRENT_CELLS})
_JOINS = frozenset({"stack", "cat"}) | SHAPE_ONLY
_COMPARES = frozenset({
    "sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "log_softmax",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity", "square", "pow",
})  # fmt: skip
_DRAWS = frozenset({"multinomial", "bernoulli"})
_MAX_EARLIER = 4
_MAX_FOLLOWED = 20


def states_cut(case: Case, backward: int) -> Iterator[StateCut]:
    """Those of each line that cuts in the step of a backward call."""
    flow = case.dataflow
    start = max(flow.step_before(backward), flow.backward_before(backward) or 0)
    lines: dict[int | None, list[Cut]] = defaultdict(list)
    for cut in flow.cuts:
        if start < cut.call < backward and cut.kind in _KINDS and len(cut.dead_outputs) == 1:
            lines[cut.call_site].append(cut)
    for cuts in lines.values():
        if _MIN_CUTS <= len(cuts) <= _MAX_CUTS and len(shape_of(flow, cuts[0].live_inputs[0])) == _RANK:
            if acts_between(flow, cuts[0].call, cuts[-1].call):
                continue
            steps = [_step_between(case, cuts[:number], *pair, backward) for number, pair in enumerate(pairwise(cuts))]
            known = [each for each in steps if each is not None]
            if len(known) < len(steps) or len({each.weights for each in known}) != 1:
                continue
            is_last = not any(each.is_reached for each in known) and _goes_through_a_sequence(known)
            if all(each.is_reached for each in known) or (is_last and _is_used(case, cuts[-1], backward)):
                yield StateCut(cuts[-1].call, known[-1].used, len(cuts), is_last)


def acts_between(flow: Dataflow, first: int, last: int) -> bool:
    """Whether a program draws actions by the states: then it learns from steps that it has already made."""
    return any(plain_name(call.function) in _DRAWS for call in flow.log.calls[first:last])


def _step_between(case: Case, earlier: list[Cut], one: Cut, other: Cut, backward: int) -> _TimeStep | None:
    """What uses the state with weights between two cuts; None if it is no time step."""
    flow = case.dataflow
    state, following = one.dead_outputs[0], other.live_inputs[0]
    rows = flow.ancestors(following, other.call, one.call + 1)
    calls = [flow.log.calls[row] for row in rows]
    of_state, taken = {state}, list[int]()
    before = {user for cut in earlier[-_MAX_EARLIER:] for user in flow.users(cut.dead_outputs[0], cut.call)}
    weights: Counter[int] = Counter()
    for row, call in zip(rows, calls, strict=True):
        name = plain_name(call.function)
        live = [use.tensor for use in call.inputs if use.is_live_leaf]
        if before and _is_from_before(flow, row, before, one.call):
            return None
        if any(use.tensor in of_state for use in call.inputs):
            of_state.update(use.tensor for use in call.outputs)
            if name in _WEIGHTED and live:
                taken.append(row)
                weights.update(live)
    is_once = bool(weights) and max(weights.values()) == 1
    if not is_once or following not in of_state or is_compared(flow, other.live_inputs[0], other.call):
        return None
    is_reached = not case.backward_calls.reached(backward).members.isdisjoint(rows)
    return _TimeStep(taken[0], frozenset(weights), is_reached, frozenset(_parts_taken(flow, rows)))


def _parts_taken(flow: Dataflow, rows: tuple[int, ...]) -> Iterator[tuple[int, str]]:
    """Of each tensor of which calls take a part by a number, such as ``x[:, t]`` and ``x.unbind(1)``: which part."""
    for row in rows:
        for use in flow.log.calls[row].inputs:
            tensor = use.tensor
            for _, call in flow.makers(tensor, row, _MAX_TAKEN):
                name = plain_name(call.function)
                if name in _TAKE and len(call.inputs) == 1:
                    yield call.inputs[0].tensor, str(call.scalars)
                elif name == "unbind":
                    yield call.inputs[0].tensor, str([each.tensor for each in call.outputs].index(tensor))
                if name != "embedding":
                    break
                tensor = call.inputs[0].tensor


_MAX_TAKEN = 2
_TAKE = frozenset({"getitem", "select", "narrow"})


def _goes_through_a_sequence(steps: list[_TimeStep]) -> bool:
    """Whether each step takes another part of one tensor: not the same input again, as the search of a fixed point."""
    first = {tensor for tensor, _ in steps[0].parts}
    return any(
        len({part for each in steps for given, part in each.parts if given == tensor}) == len(steps) for tensor in first
    )


def _is_used(case: Case, cut: Cut, backward: int) -> bool:
    """Whether the backward call reaches what is computed with the last state."""
    users = case.dataflow.users(cut.dead_outputs[0], cut.call)
    return not case.backward_calls.reached(backward).members.isdisjoint(users)


def _is_from_before(flow: Dataflow, row: int, before: set[int], last: int) -> bool:
    """Whether a call takes a tensor with a history that calls on the states of earlier time steps are in."""
    since = min(before)
    for use in flow.log.calls[row].inputs:
        made = flow.newest_producer(use.tensor, row) if use.has_grad_fn else None
        if made is not None and since <= made < last:
            return not before.isdisjoint(flow.ancestors(use.tensor, row, since))
    return False


def is_compared(flow: Dataflow, state: int, cut: int) -> bool:
    """Whether the state that a call cuts off goes into an error or a loss itself."""
    waiting, count = [(state, flow.newest_producer(state, cut) or 0)], 0
    while waiting and count < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        for row in flow.users(tensor, after):
            call, count = flow.log.calls[row], count + 1
            name = plain_name(call.function)
            if name in _COMPARES:
                return True
            if name in _JOINS and row != cut and call.outputs:
                waiting.append((call.outputs[0].tensor, row))
    return False
