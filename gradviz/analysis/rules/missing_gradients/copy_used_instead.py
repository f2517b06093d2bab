"""GV117."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, line_in_function_of, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.copies_used import CopyUsed, line_of_copy
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import called_name


class CopyUsedInstead(Rule):
    """A loss is computed with a copy of the parameters that the step after it should train.

    What it finds
    -------------
    An optimizer none of whose steps changes parameters, because the backward before each of them never reaches them,
    where a copy of these parameters computed the loss instead: an average of weights, a target network, a teacher, what
    ``torch.func.stack_module_state()`` made of them, what ``dataclasses.asdict()`` made of a configuration that has a
    module. It does not report copies beside the trained
    model, such as targets, nor copies for evaluation.

    Why it matters
    --------------
    The copy has the same layers and returns similar numbers, and other parts of the loss still require grad, so nothing
    raises. The gradient stops at the copy, and what the optimizer holds keeps its first values.

    Example
    -------
    import copy
    encoder, head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    average = copy.deepcopy(encoder).requires_grad_(False)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
    for step in range(4):
        loss = head(average(torch.randn(8, 2))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), encoder.parameters()):
                old.lerp_(new, 0.01)

    Instead
    -------
    import copy
    encoder, head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    average = copy.deepcopy(encoder).requires_grad_(False)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
    for step in range(4):
        loss = head(encoder(torch.randn(8, 2))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), encoder.parameters()):
                old.lerp_(new, 0.01)
    """

    code = "GV117"
    name = "copy_used_instead"
    severity = "warning"
    yields_to = ("stale_optimizer_params", "not_registered")

    def check(self, case: Case) -> Iterator[Finding]:
        cut_off = {number for each in case.cut_off for number in each.tensors}
        for found in case.copies_used:
            if found.is_new and cut_off.issuperset(found.copies):
                continue  # A line that cuts made the copies, and is told.
            if not found.is_new and not case.histories.trained.isdisjoint(found.copies.values()):
                continue  # Copies that an optimizer trains are layers: what they were made of was only their pattern.
            yield self._finding(case, found)

    def _finding(self, case: Case, found: CopyUsed) -> Finding:
        flow, histories, first = case.dataflow, case.histories, found.rows[0]
        trained = sorted(found.copies)
        line, training = line_of_copy(flow, found.rows), line_in_function_of(flow, first, found.backward)
        step = location_of_call(flow, found.step)
        if found.is_new:
            made = histories.line_where_made(found.copies[trained[0]])
            # A copy that has an optimizer learns as it should; what it has learnt is not given on.
            line, training = (training, made) if _has_optimizer(flow, found) else (made, line)
        elif found.leaves:
            given = [row for each in histories.optimizers_of(trained[0]) for row in histories.given_at(each)]
            line, training = histories.line_where_made(found.leaves[0]), flow.line_of(min(given, default=found.step))
        location = location_of_line(line)
        names = together(names_of(flow, found.leaves or (found.copies[each] for each in trained)))
        return self.finding(
            f"{found.steps:,} steps{at_line(step)} never change {histories.together(trained)}: their loss is computed "
            f"with a copy of them{names and f' ({names})'}",
            symptom="grad_none",
            why="the gradient of this loss leads to the copy, or stops there; step() skips a parameter whose .grad is "
            "None",
            fix="compute the loss with weights that are a function of the parameters (torch.func.functional_call), or "
            "give the gradients of the copy on: p.grad = copied.grad"
            if found.is_new
            else _remedy(case, location)
            if found.leaves
            else "call the trained model here, and the copy only where no step should learn from it",
            location=location,
            symptom_location=location_of_line(training) if training != line else step,
            tensors=names_of(flow, [*trained, *found.leaves]),
            evidence={"steps": found.steps, "parameters": len(trained)},
        )


_COPIES_FIELDS = {"asdict": "vars()", "astuple": "vars().values()"}
"""Functions of dataclasses that copy what the fields hold, and what gives the same without copies."""


def _remedy(case: Case, location: Location | None) -> str:
    """What to do about copies that get the gradients."""
    tree = None if location is None else own_tree(case, location.file)
    statement = None if tree is None or location is None else tree.statement_at(location.line)
    called = {called_name(each) for each in ast.walk(statement)} if statement is not None else set()
    name = next((each for each in _COPIES_FIELDS if each in called), None)
    if name is None:
        return "give the optimizer the copies, which get the gradients, or compute the loss with what it has"
    return f"{name}() copies what the fields hold, modules as well: {_COPIES_FIELDS[name]} gives the fields themselves"


def _has_optimizer(flow: Dataflow, found: CopyUsed) -> bool:
    """Whether the steps of an optimizer change the copies."""
    copies = set(found.copies.values())
    last = next((row for row in reversed(flow.rows_of_kind("step")) if row < found.backward), None)
    return last is not None and any(use.tensor in copies for use in flow.log.calls[last].inputs)
