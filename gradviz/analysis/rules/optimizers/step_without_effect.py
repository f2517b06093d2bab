"""GV710."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.unchanged_parameters import Reason, Unchanged, unchanged_parameters
from gradviz.analysis.parameters.unused_parameters import is_made_by_library
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.left_out_of_forward import forward_that_leaves_out
from gradviz.analysis.rules.bases.sources.own_files import own_files, program_files
from gradviz.analysis.rules.bases.sources.rates.computed_rates import (
    lines_of_computed_rates,
    lines_of_zero_rates,
)
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import (
    line_of_schedule,
    line_that_rounds,
    line_that_steps,
    places_of_schedule,
)

_MIN_STEPS = 3
"""At fewer steps it is a note: a warm-up may start with a learning rate of 0."""
_MIN_IDLE_STEPS = 2
"""The last step of a schedule may have a learning rate of 0."""


class StepWithoutEffect(Rule):
    """An optimizer steps, and a parameter that it holds never changes.

    What it finds
    -------------
    Parameters whose values at the end are those before the first step, bit for bit, where no other rule names the
    cause. It tells a learning rate of 0, gradients that are cleared before each step, those that ``autograd.grad()``
    returns and nobody assigns, parameters that no backward reaches, and the line that writes the old values back after
    each step; else it says that the cause is not known. Also optimizers whose learning rate has become so small that
    most of their steps hardly change anything, or was 0 at the first of them because a schedule was not stepped.

    Why it matters
    --------------
    Nothing raises: ``step()`` skips a parameter whose ``.grad`` is None, and with a gradient of zero, or a learning
    rate of 0, it changes nothing. This part of the model keeps its initial values.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV710"
    name = "step_without_effect"
    severity = "warning"
    yields_to = ("gradient_always_zero", "clipped_to_nothing")
    is_last_resort = True

    def check(self, case: Case) -> Iterator[Finding]:
        if case.capture.error is not None:
            return
        told: set[int] = set()
        copies = case.copies_in_optimizers
        for group in unchanged_parameters(case.histories):
            if copies.keys() >= set(group.tensors):
                continue
            if group.reason == "no learning rate":
                told.update(case.histories.optimizers_of(group.tensors[0]))
            yield self._finding(case, group)
        for number in range(len(case.histories.log.optimizers)):
            finding = None if number in told else self._decayed(case, number) or self._waited(case, number)
            if finding is not None:
                yield finding

    def _decayed(self, case: Case, number: int) -> Finding | None:
        """An optimizer with a group most of whose steps had next to no learning rate, if it was higher before."""
        histories = case.histories
        optimizer = histories.log.optimizers[number]
        steps = histories.steps_by_optimizer.get(number, [])
        idle, highest, rate = max(
            zip(optimizer.idle_steps, optimizer.highest_rates, optimizer.learning_rates, strict=False),
            key=lambda each: each[0],
            default=(0, None, None),
        )
        if highest is None or rate is None or idle < _MIN_IDLE_STEPS or 2 * idle <= len(steps):
            return None
        if 2 * optimizer.steps_from_zero > idle:  # it rose, late
            return None
        name = optimizer_words(optimizer)
        part = "" if len(optimizer.learning_rates) == 1 else "a group of "
        return self.finding(
            f"the learning rate of {part}{name} fell from {highest:.3g} to {rate:.3g}: {idle:,} of {len(steps):,} "
            f"steps {'go up the loss or ' if rate < 0 else ''}hardly change anything",
            symptom="grad_wrong",
            why=_WORDS["no learning rate"][1],
            fix="look at what lowers it: a schedule may be stepped for each batch where its figures mean epochs",
            **(places_of_schedule(case, number) if idle < len(steps) - 1 else _at_its_making(case, steps[-1])),
            evidence={"steps": len(steps), "idle_steps": idle},
        )

    def _waited(self, case: Case, number: int) -> Finding | None:
        """An optimizer whose first steps had no learning rate at all, because of a schedule."""
        histories = case.histories
        optimizer = histories.log.optimizers[number]
        steps = histories.steps_by_optimizer.get(number, [])
        waited = optimizer.steps_from_zero
        if not _MIN_WAITED <= waited < len(steps):
            return None
        step = location_of_call(histories.flow, steps[0])
        made = [each for each in histories.log.schedules if each.optimizer == number]
        only = location_of_line(histories.flow.line(made[0].call_site)) if len(made) == 1 else None
        schedule, stepped = line_of_schedule(case, step) or only, line_that_steps(case, step)
        if schedule is None:
            return None
        if any((each.moves or 0) >= waited for each in made):
            why = "its schedule was stepped between them, and gave 0 each time"
            fix = "let the rate rise from the first step on: (step + 1) / warmup, without rounding it to whole numbers"
            rounds = line_that_rounds(case, schedule)
            location, severity = rounds or schedule, self.severity if rounds is not None else "note"
        else:
            why = "a schedule that begins at 0 only leaves it when it is stepped, and it was not between these steps"
            fix = (
                "step the schedule right after each optimizer.step() if its figures count batches, or begin above 0: "
                "(step + 1) / warmup"
            )
            location, severity = stepped or schedule, self.severity
        return self.finding(
            f"the learning rate of {optimizer_words(optimizer)} was 0 at its first {waited:,} of {len(steps):,} steps: "
            "they change nothing",
            severity=severity,
            symptom="grad_wrong",
            why=why,
            fix=fix,
            location=location,
            symptom_location=schedule if location != schedule else step,
            evidence={"steps": len(steps), "without_rate": waited},
        )

    def _finding(self, case: Case, group: Unchanged) -> Finding:
        histories = case.histories
        verb = "has" if len(group.tensors) == 1 else "have"
        steps = "the only step" if group.steps == 1 else f"{group.steps:,} steps"
        step = location_of_call(histories.flow, group.step)
        location = step if group.blamed is None else location_of_call(histories.flow, group.blamed)
        if group.reason == "no learning rate":
            location = _line_of_rate(case, group) or location
        elif group.reason == "lost":
            location = _line_that_writes(case, group) or location
        words = _WORDS[group.reason]
        left_out = forward_that_leaves_out(case, group.tensors[0]) if group.reason == "no backward" else None
        if left_out is not None:
            location, method = left_out
            only = f", and only {method}() uses them" if method else ""
            words = (f"{words[0]}, as forward() returns without them{only}", *words[1:])
        # A model of a library may have more than a program needs, as the head of an encoder.
        is_extra = group.reason == "no backward" and all(is_made_by_library(histories, each) for each in group.tensors)
        is_sure = group.steps >= _MIN_STEPS and group.reason not in _MAY_BE_RIGHT and not is_extra
        return self.finding(
            f"{histories.together(group.tensors)} {verb} the same values after {steps} as before: {words[0]}",
            severity="warning" if is_sure else "note",
            symptom="grad_none" if group.reason in ("no backward", "returned") else "grad_wrong",
            why=words[1],
            fix=words[2],
            location=location,
            symptom_location=step if step != location else None,
            tensors=names_of(histories.flow, group.tensors),
            evidence={"steps": group.steps, "parameters": len(group.tensors)},
        )


def _at_its_making(case: Case, step: int) -> dict[str, Location | None]:
    """The places of a finding about a schedule that ended the training at its first step: it is not stepped too often,
    its figures are wrong."""
    stepped = location_of_call(case.dataflow, step)
    made = line_of_schedule(case, stepped)
    return {"location": made or stepped, "symptom_location": stepped if made not in (None, stepped) else None}


def _line_of_rate(case: Case, group: Unchanged) -> Location | None:
    """Where the learning rate of 0 comes from: the optimizer's own line, or a schedule."""
    histories = case.histories
    number = histories.optimizers_of(group.tensors[0])[0]
    made = next((location_of_call(histories.flow, row) for row in histories.given_at(number)), None)
    optimizer = histories.log.optimizers[number]
    groups = zip(optimizer.groups, optimizer.highest_rates, strict=False)
    is_constant = any(rate == 0 for tensors, rate in groups if group.tensors[0] in tensors)
    if not is_constant:
        return line_of_schedule(case, location_of_call(histories.flow, group.step))
    written = [Location(file, line) for file, tree in program_files(case) for line in lines_of_zero_rates(tree)]
    if len(written) == 1:
        return written[0]
    sources = own_files(case) if len(optimizer.groups) > 1 else ()
    computed = [Location(file, line) for file, tree in sources for line in lines_of_computed_rates(tree)]
    return computed[0] if len(computed) == 1 else made


def _line_that_writes(case: Case, group: Unchanged) -> Location | None:
    """The line of the program's own optimizer that adds its move to a parameter."""
    flow = case.dataflow
    writes = flow.changes(group.tensors[0], group.step, len(flow.log.calls))
    return next((location_of_call(flow, row) for row in writes if flow.log.calls[row].inside is not None), None)


_MIN_WAITED = 3
"""A warm-up that begins at 0 spends a step there, and perhaps one more."""
_MAY_BE_RIGHT = frozenset({"zero", "rounded away", "restored later", "derivative", "unknown"})
"""A bias before a normalization, or one that cancels in a difference, has no influence on the loss; a search for a
learning rate, or an adaptation to one sample, ends with the values from which it began."""

_WORDS: dict[Reason, tuple[str, str, str]] = {
    "no backward": (
        "no backward reaches them",
        "step() skips a parameter whose .grad is None",
        "use them for the loss of the steps that should train them, or take them out of the optimizer",
    ),
    "returned": (
        "autograd.grad() returns their gradients, and fills no .grad",
        "step() reads .grad, which is None or zero here; what autograd.grad() returns is for the program alone",
        "assign them before the step: for p, g in zip(parameters, gradients): p.grad = g; or call loss.backward()",
    ),
    "cleared": (
        "each of their gradients is cleared before a step uses it",
        "the order is zero_grad(), backward(), step(): here step() comes between zero_grad() and backward()",
        "call backward() before step(), and zero_grad() before that backward()",
    ),
    "no learning rate": (
        "the learning rate of their group is 0",
        "a step is the learning rate times what the gradients say",
        "set the learning rate of that group, or look at the schedule that made it 0",
    ),
    "zero": (
        "the last gradient that a step used is exactly zero",
        "a bias that cancels in a difference, or before a normalization, has no influence on the loss; nor has what is "
        "multiplied by 0",
        "if they should train, look at what follows them; else take them out of the model",
    ),
    "rounded away": (
        "each step is smaller than the last digit of their values",
        "a bias before a normalization, or one that cancels in a difference, gets only rounding errors",
        "if they should train, look at what follows them; else take them out of the model",
    ),
    "short dtype": (
        "each step is too small for their dtype",
        "16-bit floats have so few digits that adding a change of less than about 1/256 of a value does nothing",
        "keep the parameters in float32 and use torch.autocast for the computation, or take larger steps",
    ),
    "lost": (
        "the last step should have changed them; cause not found",
        "what the step adds may be 0, something may write the old values back, or the step may be skipped",
        "print one of them before and after step(), and look for copy_(), load_state_dict() and clamps",
    ),
    "written back": (
        "the program writes their old values back after each step",
        "load_state_dict(), copy_() and assignments to .data replace what the step has computed",
        "keep the new values: write old ones back only where that is meant, and not behind each step",
    ),
    "restored later": (
        "the program writes the old values back behind the last step",
        "load_state_dict(), copy_() and assignments to .data replace all that the steps have computed",
        "if what is trained is used later, take the copy after the training, and load that",
    ),
    "derivative": (
        "no gradient arrives in .grad",
        "the loss is computed from a derivative, and that does not depend on what is only added, as the last bias of a "
        "network is",
        "nothing, if only derivatives are to count; else add a term that compares the values themselves",
    ),
    "unknown": (
        "they get gradients; cause not found",
        "the gradients that were used may be zero, or something may write the old values back",
        "print one of them and its .grad before and after step()",
    ),
}
