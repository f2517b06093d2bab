"""GV695."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.overwritten_variables import assigned
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.derivatives.derivative_names import (
    fits,
    is_named_twice,
    named_derivatives,
    variable_of,
)
from gradviz.analysis.rules.bases.formulas.derivatives.derivative_pairs import (
    SamePair,
    meet_in_a_loss,
    mixed_derivatives,
    same_derivatives,
)
from gradviz.analysis.rules.bases.formulas.derivatives.forward_derivatives import same_directions
from gradviz.analysis.rules.bases.formulas.derivatives.recomputed_derivatives import recomputed_derivatives


class SameDerivativeTwice(Rule):
    """Two derivatives with different names are the same one, and that by another input is never computed.

    What it finds
    -------------
    Two calls of ``torch.autograd.grad()`` in one step with the same output and the same input, whose results both go
    into one loss from variables of different names, where the output depends on another input of the program that it
    is not differentiated by: ``u_t = grad(u.sum(), x)``. Likewise two calls of ``torch.func.jvp`` along one direction,
    if none is along another one, and two calls of ``torch.func.grad`` of one function with the same ``argnums``. Also
    a second derivative that is named for one input twice (``u_xx``, ``d2u_dx2``), where the first one is by this input,
    and the second by another one.

    Why it matters
    --------------
    The loss is that of another differential equation. Nothing raises, as both derivatives have the same shape, and the
    loss falls.

    Example
    -------
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        x, t = torch.rand(16, 1, requires_grad=True), torch.rand(16, 1, requires_grad=True)
        u = net(torch.cat([x, t], dim=1))
        u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        u_t = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        loss = (u_t + 2 * u_x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        x, t = torch.rand(16, 1, requires_grad=True), torch.rand(16, 1, requires_grad=True)
        u = net(torch.cat([x, t], dim=1))
        u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
        loss = (u_t + 2 * u_x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV695"
    name = "same_derivative_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location | None]()
        for pair in same_derivatives(case):
            wrong = _wrong_one(case, pair)
            found = None if wrong is None else self._finding(case, pair, *wrong)
            if found is not None and found.location not in told:
                told.add(found.location)
                yield found
        yield from self._of_second_order(case, told)
        yield from self._of_directions(case)
        yield from self._of_functions(case, told)

    def _of_second_order(self, case: Case, told: set[Location | None]) -> Iterator[Finding]:
        """Of derivatives of derivatives, by another input than their names say."""
        flow = case.dataflow
        for first, second in mixed_derivatives(flow):
            name = variable_of(case, second, first)
            by, other = (flow.log.calls[row].asked[0].tensor for row in (first, second))
            # Inputs of a function have no names in the record, but its derivatives do: u_x, du_dx.
            once_named = (variable_of(case, first, second) or "").rpartition("_")[2].removeprefix("d")
            names = [*flow.log.tensors[by].names, *([once_named] if once_named else [])]
            own = next((each for each in names if name and is_named_twice(name, each)), None)
            location = location_of_line(line_apart(flow, second, first))
            if own is None or location in told or not meet_in_a_loss(case, first, second):
                continue
            told.add(location)
            once = location_of_line(line_apart(flow, first, second))
            yield self.finding(
                f"{name} is the derivative by {own}, differentiated by {_name(flow, other) or 'another input'}: it is "
                f"not the second derivative by {own}",
                symptom="grad_wrong",
                why="the loss is that of another equation than the one that the names say",
                fix=f"differentiate by {own} again here",
                location=location,
                symptom_location=once if once != location else None,
            )

    def _of_functions(self, case: Case, told: set[Location | None]) -> Iterator[Finding]:
        """Of derivatives by ``torch.func.grad()``, which compute the function for each of them."""
        flow = case.dataflow
        for pair in recomputed_derivatives(flow):
            named = named_derivatives(case, pair) if meet_in_a_loss(case, pair.first, pair.second) else []
            right = [any(fits(name, by) for by in pair.by) for name, _ in named]
            wrong = 0 if right == [False, True] else 1
            if not named or all(right) or named[wrong][1] in told or not flow.has_step_after(pair.second):
                continue
            (name, location), (other, used) = named[wrong], named[1 - wrong]
            missing = next((each for each in sorted(pair.others) if fits(name, each)), min(pair.others, default="x"))
            told.add(location)
            yield self.finding(
                f"{name} is the same derivative as {other}{at_line(used)}; that by {missing} is not computed",
                symptom="grad_wrong",
                why="both names stand for the same numbers in the loss, which is then that of another equation",
                fix=f"differentiate by {missing} here: torch.func.grad(f, argnums=...) with the place of {missing}; it "
                "is 0 without that",
                location=location,
                symptom_location=used,
            )

    def _of_directions(self, case: Case) -> Iterator[Finding]:
        """Of derivatives by ``torch.func.jvp``: two along one direction, none along another one."""
        flow, told = case.dataflow, set[Location | None]()
        for first, second in same_directions(flow):
            places = [location_of_call(flow, each.chosen) for each in (first, second)]
            names = [assigned(case.source_line(place) or "") for place in places]
            if None in names or names[0] == names[1] or not flow.has_step_after(second.made):
                continue
            # Names stand in the order of the axes as a rule: the second one is that of axis 1.
            wrong = 1 if first.axis == 0 else 0
            if places[wrong] not in told:
                told.add(places[wrong])
                yield self.finding(
                    f"{names[wrong]} is the derivative along the same direction as {names[1 - wrong]}"
                    f"{at_line(places[1 - wrong])}; none is computed along another one",
                    symptom="grad_wrong",
                    why="both names stand for the same numbers in the loss, which is then that of another equation",
                    fix="give it the direction of its own input, which is another row of the identity matrix",
                    location=places[wrong],
                    symptom_location=places[1 - wrong],
                )

    def _finding(self, case: Case, pair: SamePair, row: int, name: str, missing: str) -> Finding:
        flow = case.dataflow
        other = pair.second if row == pair.first else pair.first
        line = line_apart(flow, other, row)
        leaves, _ = case.histories.live_leaves((use.tensor for use in flow.log.calls[row].roots), row)
        by = _name(flow, pair.by) or "the same input"
        return self.finding(
            f"{name} is the derivative by {by}, which is computed{at_line(line)} as well; that by {missing} is not",
            symptom="grad_wrong",
            why="both names stand for the same numbers in the loss, which is then that of another equation",
            fix=f"differentiate by {missing} here: torch.autograd.grad(u.sum(), {missing}, create_graph=True)[0]",
            location=location_of_line(line_apart(flow, row, other)),
            symptom_location=location_of_line(line),
            tensors=names_of(flow, sorted(leaves & case.histories.trained)),
        )


# -- names -------------------------------------------------------------------------------------------------------------


def _wrong_one(case: Case, pair: SamePair) -> tuple[int, str, str] | None:
    """The call whose result has the name of another derivative: with that name, and with that of the other input."""
    flow = case.dataflow
    rows = (pair.first, pair.second)
    names = [variable_of(case, row, rows[1 - place]) for place, row in enumerate(rows)]
    if None in names or names[0] == names[1]:
        return None
    right = [any(fits(name or "", by) for by in flow.log.tensors[pair.by].names) for name in names]
    for row, name, is_right in zip(rows, names, right, strict=True):
        for other in (_name(flow, each) for each in pair.others):
            if name is not None and other is not None and not is_right and fits(name, other):
                return row, name, other
    left = [_name(flow, each) for each in pair.others if not _is_asked_for(flow, each)]
    return (rows[1], names[1] or "", left[0]) if left and left[0] is not None and not any(right) else None


def _name(flow: Dataflow, tensor: int) -> str | None:
    """The name of a tensor in the outermost function."""
    return next(reversed(flow.log.tensors[tensor].names), None)


def _is_asked_for(flow: Dataflow, tensor: int) -> bool:
    """Whether something is differentiated by a tensor."""
    asking = (flow.log.calls[row] for row in flow.users(tensor) if flow.log.calls[row].kind == "backward")
    return any(use.tensor == tensor for call in asking for use in call.asked)
