"""GV785."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, isclose

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.dead_terms import live_terms
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.shared_memory import taken_without_copy
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.own_references import own_references
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import TensorUse


class TermAlwaysZero(Rule):
    """A term of a loss is 0 at every step, because the two things that it compares are always the same.

    What it finds
    -------------
    Terms of a loss that is a sum, if they are 0 at every step since a difference, or a loss such as ``mse_loss`` or
    ``kl_div``, got twice the same values; a note for terms that a ``relu()`` or ``clamp()`` holds at 0.

    Why it matters
    --------------
    The gradient of such a term is 0: the rest of the loss trains as if it were not there. Two forwards without dropout
    give the same, two augmentations may do nothing, a teacher may be copied from the student before each use.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        first, second = model(x), model(x)
        consistency = (first.softmax(1) - second.softmax(1)).square().mean()
        loss = torch.nn.functional.cross_entropy(first, y) + consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    dropout = torch.nn.Dropout(0.3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), dropout, torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        first, second = model(x), model(x)
        consistency = (first.softmax(1) - second.softmax(1)).square().mean()
        loss = torch.nn.functional.cross_entropy(first, y) + consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV785"
    name = "term_always_zero"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        found = dict[int | None, _ZeroTerm]()
        for backward in case.histories.last_backward_of_each_line:
            for use in flow.log.calls[backward].roots if flow.has_step_after(backward) else ():
                for term in _zero_terms(flow, backward, use.tensor):
                    found.setdefault(flow.log.calls[term.made].call_site, term)
        told = {each.call for each in own_references(case.histories)} if found else set()
        for site, term in found.items():
            rows = _calls_of_line(flow, site, term)
            is_told = not told.isdisjoint(rows) or taken_without_copy(flow, term.made) is not None
            steps = {flow.step_before(row) for row in rows}
            is_always = len(steps) >= _MIN_STEPS and all(_is_zero(flow, row) for row in rows)
            if is_always and not is_told and not _is_of_a_ratio(flow, term.made):
                yield self._finding(flow, term, len(rows))

    def _finding(self, flow: Dataflow, term: _ZeroTerm, times: int) -> Finding:
        location, added = two_lines(flow, term.made, term.added)
        what = call_words(flow.log.calls[term.made])
        if term.is_held:
            return self._held(what, location, added, times)
        return self.finding(
            f"a term of the loss is 0 all {times:,} times, and so is its gradient: {what}{at_line(location)} gets the "
            "same values twice",
            symptom="grad_zero",
            why="two forwards without dropout or other data give the same, and so do two names of one tensor",
            fix="look how the two sides were computed: other dropout masks or augmentations, other weights or another "
            "index must make them differ",
            location=location,
            symptom_location=added,
            evidence={"times": times},
        )

    def _held(self, what: str, location: Location | None, added: Location | None, times: int) -> Finding:
        return self.finding(
            f"a term of the loss is 0 all {times:,} times, and so is its gradient: {what}{at_line(location)} holds it "
            "at 0",
            severity="note",
            symptom="grad_zero",
            why="a hinge teaches nothing where it is satisfied: that may be meant, or its sign or margin is wrong",
            fix="compare what goes into it with the margin; leave the term out if it is never needed",
            location=location,
            symptom_location=added,
            evidence={"times": times},
        )


_COMPARE = frozenset({"sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "pairwise_distance"})
_HOLD = frozenset({"relu", "clamp", "clamp_min", "clip", "maximum", "threshold"})
_SIDES = 2
_MIN_STEPS = 4
_MAX_CALLS = 40
_ROUNDING = 1e-6
"""A divergence of equal distributions is not exactly 0."""


class _ZeroTerm(Struct, frozen=True):
    """A term of a loss that is 0."""

    made: int
    """The call that made a 0 of something else."""
    added: int
    """The call that adds the term to the loss."""
    is_held: bool
    """Whether that is a hinge, not a comparison."""


def _zero_terms(flow: Dataflow, backward: int, root: int) -> Iterator[_ZeroTerm]:
    terms = live_terms(flow, backward, root)
    for tensor, added in terms if len(terms) > 1 else ():
        made = _where_it_becomes_zero(flow, tensor, added)
        if made is None:
            continue
        call = flow.log.calls[made]
        name = plain_name(call.function)
        if name in _HOLD and _count(flow, call.outputs[0], made) > 1:
            yield _ZeroTerm(made, added, is_held=True)
        elif name in _COMPARE and len(call.inputs) == _SIDES and _sides_are_alike(flow, made, name):
            yield _ZeroTerm(made, added, is_held=False)


def _where_it_becomes_zero(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The uppermost call above a term of which all results are 0, and an input that needs a gradient is not."""
    found = None
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, before)
        if made is None or flow.log.calls[made].kind != "operation" or not _is_zero(flow, made):
            break
        found, before = made, made
        live = flow.log.calls[made].live_inputs
        if not live:
            return None
        tensor = live[0].tensor
    return found


def _is_zero(flow: Dataflow, row: int) -> bool:
    """Whether all that a call returned is 0, as good as it can be computed."""
    call = flow.log.calls[row]
    values = flow.values_of(call.outputs[0], row + 1) if call.outputs else None
    if values is None or values.minimum is None or values.maximum is None or not values.is_finite:
        return False
    bound = _ROUNDING if values.count == 1 else 0.0
    return -bound <= values.minimum and values.maximum <= bound


def _sides_are_alike(flow: Dataflow, row: int, name: str) -> bool:
    """Whether both sides have as many numbers, between the same bounds, and not all are the same one."""
    call = flow.log.calls[row]
    one, other = (flow.values_of(use, row) for use in call.inputs)
    if one is None or other is None or one.count != other.count or one.count == 1:
        return False
    bounds = (one.minimum, one.maximum), (other.minimum, other.maximum)
    logarithms, given = (tuple(each for each in pair if each is not None) for pair in bounds)
    if len(logarithms) != _SIDES or len(given) != _SIDES or logarithms[0] == logarithms[1]:
        return False
    if name != "kl_div":
        return call.outputs[0].values is not None and call.outputs[0].values.minimum == 0 and logarithms == given
    wanted = logarithms if call.scalars.get("log_target") else tuple(map(exp, logarithms))
    return all(isclose(each, like, abs_tol=_ROUNDING) for each, like in zip(wanted, given, strict=True))


def _calls_of_line(flow: Dataflow, site: int | None, term: _ZeroTerm) -> list[int]:
    """The calls like that of the term on its line that a step may use."""
    function = flow.log.calls[term.made].function
    return [
        row
        for row, call in enumerate(flow.log.calls)
        if call.call_site == site and call.function == function and flow.has_step_after(row) and call.live_inputs
    ]


def _is_of_a_ratio(flow: Dataflow, row: int) -> bool:
    """Whether ``exp(new - old)`` is computed of the same two tensors: in a single update with each new data that ratio
    is 1, and what keeps near the old policy is 0."""
    call = flow.log.calls[row]
    sides = {use.tensor for use in call.inputs}
    users = (user for tensor in sides for user in flow.users(tensor))
    ratios = (flow.log.calls[user] for user in users if plain_name(flow.log.calls[user].function) == "sub")
    return any(
        plain_name(flow.log.calls[user].function) == "exp"
        for ratio in ratios
        if {use.tensor for use in ratio.inputs} == sides and ratio.outputs
        for user in flow.users(ratio.outputs[0].tensor)
    )


def _count(flow: Dataflow, use: TensorUse, row: int) -> int:
    values = flow.values_of(use, row + 1)
    return 0 if values is None else values.count
