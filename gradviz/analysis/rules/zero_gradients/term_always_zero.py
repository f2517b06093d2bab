"""GV785."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.zero_terms import ZeroTerm
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.shared_memory import taken_without_copy
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.own_references import own_references
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule


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
        found = case.zero_terms
        told = {flow.log.calls[each.call].call_site for each in own_references(case.histories)} if found else set()
        for term in found:
            if term.is_held:
                yield self._held(flow, term)
            elif (
                flow.log.calls[term.made].call_site not in told
                and taken_without_copy(flow, term.made) is None
                and not _is_of_a_ratio(flow, term.made)
            ):
                yield self._compared(case, term)

    def _compared(self, case: Case, term: ZeroTerm) -> Finding:
        flow = case.dataflow
        location, added = two_lines(flow, term.made, term.added)
        words = f"{call_words(flow.log.calls[term.made])}{at_line(location)} gets the same values twice"
        copying = _copy_of_parameters(case.histories, term.made)
        if copying is not None:
            at = location_of_call(flow, copying)
            return self.finding(
                f"{_zero(term)}: {words}, because the parameters of one side are made those of the other{at_line(at)} "
                "before each use",
                symptom="grad_zero",
                why="a copy that is renewed before each step says the same as the model itself",
                fix="renew the copy more rarely than the model steps, or average it: old.lerp_(new, 0.01)",
                location=at,
                symptom_location=location,
                evidence={"times": term.times},
            )
        changing = _change_of_both(flow, term.made)
        if changing is not None:
            at = location_of_call(flow, changing)
            return self.finding(
                f"{_zero(term)}: {words}, because both sides are computed of one tensor, which "
                f"{call_words(flow.log.calls[changing])}{at_line(at)} changed in place for each of them",
                symptom="grad_zero",
                why="a change in place returns the tensor that it got, so the second one changes the first one as well",
                fix="return a new tensor: x + noise, x.add(noise); or change a clone()",
                location=at,
                symptom_location=location if location != at else None,
                evidence={"times": term.times},
            )
        return self.finding(
            f"{_zero(term)}: {words}{_lines_of_sides(flow, term.made)}",
            symptom="grad_zero",
            why="two forwards without dropout or other data give the same, and so do two names of one tensor",
            fix="look how the two sides were computed: other dropout masks or augmentations, other weights or another "
            "index must make them differ",
            location=location,
            symptom_location=added,
            evidence={"times": term.times},
        )

    def _held(self, flow: Dataflow, term: ZeroTerm) -> Finding:
        location, added = two_lines(flow, term.made, term.added)
        return self.finding(
            f"{_zero(term)}: {call_words(flow.log.calls[term.made])}{at_line(location)} holds it at 0",
            severity="note",
            symptom="grad_zero",
            why="a hinge teaches nothing where it is satisfied: that may be meant, or its sign or margin is wrong",
            fix="compare what goes into it with the margin; leave the term out if it is never needed",
            location=location,
            symptom_location=added,
            evidence={"times": term.times},
        )


def _zero(term: ZeroTerm) -> str:
    return f"a term of the loss is 0 all {term.times:,} times, and so is its gradient"


def _copy_of_parameters(histories: ParameterHistories, row: int) -> int | None:
    """The call that changed, since the last step, a parameter from which the side without a gradient was computed."""
    flow = histories.flow
    since = flow.step_before(row)
    for use in flow.log.calls[row].inputs:
        above = () if use.requires_grad else flow.ancestors(use.tensor, row, since)
        for number in {each.tensor for made in above for each in flow.log.calls[made].inputs} - histories.trained:
            changes = flow.changes(number, since, above[-1]) if histories.tensor(number).role == "parameter" else ()
            if changes:
                return changes[-1]
    return None


def _change_of_both(flow: Dataflow, row: int) -> int | None:
    """The last of several changes in place on one line, since the last step, of data from which two calls then compute
    alike."""
    since, calls = flow.step_before(row), flow.log.calls
    users: dict[int, list[int]] = defaultdict(list)
    for each in flow.ancestors(calls[row].outputs[0].tensor, row + 1, since):
        if any(use.has_grad_fn for use in calls[each].outputs):
            for tensor in {use.tensor for use in calls[each].inputs if not use.requires_grad}:
                users[tensor].append(each)
    for tensor, rows in users.items():
        alike = {(calls[each].function, *(use.tensor for use in calls[each].inputs)) for each in rows}
        is_twice = len(rows) > len(alike)
        changes = flow.changes(tensor, since, rows[0]) if is_twice and flow.is_made(tensor, rows[0]) else ()
        places = {(calls[each].function, location_of_call(flow, each)) for each in changes}
        if len(changes) > len(places) == 1 and flow.log.tensors[tensor].role == "tensor":
            return changes[-1]
    return None


def _lines_of_sides(flow: Dataflow, row: int) -> str:
    """The lines on which the two sides were computed, where they are others than that of the comparison."""
    made = [flow.newest_producer(use.tensor, row) for use in flow.log.calls[row].inputs]
    lines = {line.line for each in made if each is not None and (line := flow.line_of(each)) is not None}
    own = flow.line_of(row)
    if own is None or lines <= {own.line}:
        return ""
    return f", which line{'s' if len(lines) > 1 else ''} {' and '.join(map(str, sorted(lines)))} computed"


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
