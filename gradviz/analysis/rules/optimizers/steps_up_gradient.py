"""GV742."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.creation_lines import call_that_made_optimizer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.fits import fits_in
from gradviz.analysis.rules.bases.losses.objectives import has_turned_gradients, is_on_purpose
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms
from gradviz.analysis.rules.bases.moves_by_gradient import NewValues, goes_up_gradient, new_values


class StepsUpGradient(Rule):
    """A step by hand adds the gradient, where it should subtract it.

    What it finds
    -------------
    Parameters that only the program itself changes, by adding a positive multiple of their gradient, or of a momentum
    of it, at every step (``add_``, ``addcdiv_``, calls of whole lists, or new tensors that take the place of the old
    ones); where the loss is an error that should get smaller. Likewise all the tensors of a program without modules.
    Also ``maximize=True`` of the only optimizer, with such a loss.

    Why it matters
    --------------
    The gradient points to where the loss grows. Such steps make the model worse.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        loss = torch.nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=0.1)

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        loss = torch.nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.1)
    """

    code = "GV742"
    name = "steps_up_gradient"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        found: dict[int, int] = {}
        is_all = _has_only_tensors(case)
        for tensor, events in case.gradient_events.events.items():
            to_itself = set(flow.data_assignments.get(tensor, ())).difference(flow.data_replacements(tensor))
            steps = [row for row, kind in events if kind == "step" and row not in to_itself]
            by_hand = [row for row in steps if flow.log.calls[row].kind == "operation"]
            is_only = len(by_hand) == len(steps) >= _MIN_STEPS and (
                histories.tensor(tensor).role == "parameter" or is_all
            )
            if is_only and all(goes_up_gradient(case, tensor, row) for row in by_hand):
                found[tensor] = by_hand[0]
        if is_all and len(found) < len(case.gradient_events.events):
            found = {}  # What goes up beside others may be an input.
        if found and not is_on_purpose(case) and _lowers_errors(case, min(found.values())):
            yield self.finding(
                f"the steps by hand add the gradient of {histories.together(sorted(found))}: the loss is an error, and "
                "each step makes it larger",
                symptom="grad_wrong",
                why="the gradient points to where the loss grows; a step goes the other way",
                fix="subtract it: p.sub_(rate * p.grad)",
                location=location_of_call(flow, min(found.values())),
                tensors=names_of(flow, sorted(found)),
                evidence={"parameters": len(found)},
            )
        yield from self._of_new_values(case)
        yield from self._of_setting(case)

    def _of_setting(self, case: Case) -> Iterator[Finding]:
        """Of the only optimizer of a program, which was made with ``maximize=True``."""
        flow, optimizers = case.dataflow, case.dataflow.log.optimizers
        steps = flow.rows_of_kind("step")
        is_only = len(optimizers) == 1 and optimizers[0].maximizes and len(steps) >= _MIN_STEPS
        held = [each for group in optimizers[0].groups for each in group] if is_only else []
        # What is added to data may be meant to raise the error.
        is_of_model = bool(held) and all(case.histories.tensor(each).role == "parameter" for each in held)
        if not is_of_model or has_turned_gradients(flow) or is_on_purpose(case, besides="maximize=True"):
            return
        if not _lowers_errors(case, steps[-1]):
            return
        (optimizer,) = optimizers
        made = call_that_made_optimizer(flow, 0)
        yield self.finding(
            f"maximize=True lets {optimizer.class_name} go up the gradient, {optimizer.steps:,} times: the loss is an "
            "error, and each step makes it larger",
            symptom="grad_wrong",
            why="the gradient points to where the loss grows",
            fix="leave maximize=True out",
            location=location_of_call(flow, steps[0] if made is None else made),
            evidence={"steps": optimizer.steps},
        )

    def _of_new_values(self, case: Case) -> Iterator[Finding]:
        """Of steps that make new tensors: one for each line, if all that it makes goes up."""
        flow = case.dataflow
        lines: dict[Location | None, list[NewValues]] = defaultdict(list)
        for made in new_values(case):
            lines[location_of_call(flow, made.row)].append(made)
        for location, steps in lines.items():
            backwards = {each.backward for each in steps}
            is_up = all(each.goes_up for each in steps) and len(backwards) >= _MIN_STEPS
            if is_up and not is_on_purpose(case) and _lowers_errors(case, min(backwards) + 1):
                yield self.finding(
                    f"the steps by hand add the gradient, {len(backwards):,} times: the loss is an error, and each "
                    "step makes it larger",
                    symptom="grad_wrong",
                    why="the gradient points to where the loss grows; a step goes the other way",
                    fix="subtract it: p - rate * gradient",
                    location=location,
                    evidence={"times": len(backwards)},
                )


_MIN_STEPS = 2


def _has_only_tensors(case: Case) -> bool:
    """Whether a program without modules trains several tensors."""
    is_of_modules = any(each.role == "parameter" for each in case.dataflow.log.tensors)
    return not is_of_modules and len(case.gradient_events.events) > 1


def _lowers_errors(case: Case, before: int) -> bool:
    """Whether the backward call before a step began at an error, with the sign that should make it smaller."""
    flow = case.dataflow
    backward = flow.backward_before(before)
    roots = () if backward is None else flow.log.calls[backward].roots
    terms = [term for use in roots for term in signed_terms(flow, backward or 0, use.tensor)]
    fits = list(fits_in(flow, terms))
    return bool(fits) and not any(fit.is_worsened or fit.is_drawn for fit in fits)
