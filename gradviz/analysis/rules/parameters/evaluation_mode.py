"""GV707."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call
from gradviz.analysis.dataflow.layer_calls import OTHERWISE_IN_TRAINING, is_training
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines.lines_of_training import is_held_in_evaluation
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.graph.call_log import Call
from gradviz.graph.traversal import scopes_around


class EvaluationMode(Rule):
    """A model is trained while its dropout or batch normalization is in evaluation mode.

    What it finds
    -------------
    Backward calls that go through ``dropout`` with ``training=False``, and steps that follow: ``eval()`` was called,
    and ``train()`` was not called again before training. Batch normalization alone is only reported where dropout is in
    evaluation mode as well, or the model has none: people freeze its statistics on purpose. Where a comment beside
    ``eval()`` says that there is to be no dropout, it is a note. Programs that switch their batch normalizations alone,
    by their class, are left alone. So is a backward whose gradients no step uses before they are cleared: those of a
    Fisher information, or of a map of what the model looks at, are measured in evaluation mode on purpose. A part of a
    model is told where it was trained in training mode, and stays in evaluation mode since it was evaluated alone.

    Why it matters
    --------------
    In evaluation mode dropout does nothing, and batch normalization uses its running statistics and never updates them.
    The model trains, but not as it was meant to: it overfits, or its statistics keep their first values.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.eval()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV707"
    name = "evaluation_mode"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories, flow = case.histories, case.dataflow
        last = {
            flow.log.calls[row].call_site: row
            for row in histories.reached_by
            if flow.log.calls[row].function.endswith(".backward") and flow.has_step_after(row)
            if not case.gradient_events.is_cleared_unused(row)
        }
        last_steps = _last_steps(case)
        for backward in last.values():
            rows = sorted({row for use in flow.log.calls[backward].roots for row in _graph(case, use.tensor, backward)})
            modes = [(row, mode) for row in rows if (mode := is_training(flow.log.calls[row])) is not None]
            drops = [mode for row, mode in modes if OTHERWISE_IN_TRAINING[flow.log.calls[row].function] == "dropout"]
            asleep = [row for row, mode in modes if not mode and _is_trained_there(case, row, backward, last_steps)]
            reached = case.backward_calls.reached(backward).members
            asleep = [row for row in asleep if row in reached]  # not those that made a constant, such as an attack
            if not asleep or _holds_statistics(case, asleep):
                continue
            if not any(drops):
                yield self._finding(
                    case, asleep, backward, is_meant=_is_explained(case) or _is_of_adapters(case, rows, asleep)
                )
                return
            evaluated = _evaluated_between(case, asleep)
            if evaluated is not None and not _is_explained(case):
                yield self._of_part(case, asleep, backward, evaluated)
                return

    def _of_part(self, case: Case, asleep: list[int], backward: int, evaluated: int) -> Finding:
        flow = case.dataflow
        words = sorted({OTHERWISE_IN_TRAINING[flow.log.calls[row].function] for row in asleep})
        here, there = location_of_call(flow, asleep[0]), location_of_call(flow, evaluated)
        return self.finding(
            "a part of the model is in evaluation mode while it is trained"
            f"{at_line(location_of_call(flow, backward))}, since it was evaluated: {' and '.join(words)} "
            f"{'does' if len(words) == 1 else 'do'} not work as in training there, as before that",
            symptom="grad_wrong",
            why="eval() of a part stays until train() is called for it, and the flag of the model does not show that",
            fix="call train() for that part again after it was evaluated, or model.train() before each epoch, without "
            "asking model.training",
            location=_line_of_switch_around(case, evaluated) or there,
            symptom_location=here,
            evidence={"calls": len(asleep)},
        )

    def _finding(self, case: Case, asleep: list[int], backward: int, *, is_meant: bool) -> Finding:
        flow = case.dataflow
        words = sorted({OTHERWISE_IN_TRAINING[flow.log.calls[row].function] for row in asleep})
        forward = location_of_call(flow, asleep[0])
        switch = _line_of_switch(case, forward)
        return self.finding(
            f"the model is in evaluation mode while it is trained: {' and '.join(words)} "
            f"{'does' if len(words) == 1 else 'do'} not work as in training"
            f"{at_line(location_of_call(flow, backward))}",
            severity="note" if is_meant else self.severity,
            symptom="grad_wrong",
            why="eval() stays until train() is called",
            fix=("if that is not meant, " if is_meant else "")
            + "call model.train() before training, and again after each evaluation",
            location=switch or forward,
            symptom_location=forward if switch is not None else None,
            evidence={"calls": len(asleep)},
        )


def _evaluated_between(case: Case, asleep: list[int]) -> int | None:
    """The call without gradients by which the part of a model that all of these calls belong to was evaluated, if it
    was trained in training mode before that, and never again after it."""
    calls = case.dataflow.log.calls
    scopes = {calls[row].scope for row in asleep}
    modes = [
        (row, mode, calls[row].grad_mode == "enabled")
        for row in range(asleep[0])
        if calls[row].scope is not None and (mode := is_training(calls[row])) is not None
    ]
    paths = {case.dataflow.log.scopes[scope].path for scope in scopes if scope is not None}
    own = [each for each in modes if _path_of(case, each[0]) in paths]
    trained = [row for row, mode, is_live in own if mode and is_live]
    evaluated = [row for row, mode, is_live in own if not mode and not is_live and trained and row > trained[-1]]
    # A part that is put to rest after the whole model was evaluated may be meant, as in stages of fine-tuning.
    is_alone = bool(evaluated) and _path_of(case, evaluated[0], -1) != _path_of(case, trained[-1], -1)
    return evaluated[0] if is_alone else None


def _path_of(case: Case, row: int, depth: int = 0) -> str | None:
    """The path of the module that made a call; of the outermost one around it, with a depth of -1."""
    scopes = case.dataflow.log.scopes
    around = list(scopes_around(scopes, case.dataflow.log.calls[row].scope))
    return scopes[around[depth]].path if around else None


def _line_of_switch_around(case: Case, row: int) -> Location | None:
    """The last line above one that led to a call that calls ``eval()``, in the same function."""
    for line in callers(case.dataflow, row):
        lines = case.capture.sources.get(line.file, {})
        around = function_around(lines, line.line) or range(0)
        found = [number for number in around if number <= line.line and _SWITCH.search(lines.get(number, ""))]
        if found:
            return Location(line.file, found[-1])
    return None


def _is_explained(case: Case) -> bool:
    """Whether a comment beside ``eval()``, or right above it, says that there is to be no dropout from there on; not
    for an evaluation."""
    comments = list[str]()
    for lines in case.capture.sources.values():
        for number, text in lines.items():
            above = lines.get(number - 1, "").strip()
            if _SWITCH.search(text):
                comments += [text.partition("#")[2], above if above.startswith("#") else ""]
    return any(_NO_DROPOUT.search(each) and not _FOR_EVALUATION.search(each) for each in comments)


_NO_DROPOUT = re.compile(r"\b(no|without|off|disabled?)\b.*\bdropout\b|\bdropout\b.*\b(off|disabled?)\b", re.IGNORECASE)
_FOR_EVALUATION = re.compile("valid|eval|test|infer|sampl|predict|generat", re.IGNORECASE)


def _is_of_adapters(case: Case, rows: list[int], asleep: list[int]) -> bool:
    """Whether dropout is off while adapters of a frozen model are trained, as some do on purpose.

    Most of its parameters are frozen, and it was never evaluated before: nobody forgot to call ``train()`` afterwards.
    Or some are frozen, and the program puts a part into evaluation mode again as soon as the whole is in training mode.
    """
    flow = case.dataflow
    if any(OTHERWISE_IN_TRAINING[flow.log.calls[row].function] != "dropout" for row in asleep):
        return False
    uses = [use for row in rows for use in flow.log.calls[row].inputs]
    given = {use.tensor: use.requires_grad for use in uses if flow.log.tensors[use.tensor].role == "parameter"}
    frozen = [tensor for tensor, is_trained in given.items() if not is_trained]
    if frozen and is_held_in_evaluation(case):
        return True
    users = (flow.log.calls[row] for tensor in frozen for row in flow.users(tensor) if row < asleep[0])
    computed = (call for call in users if call.kind == "operation" and call.grad_mode != "enabled")
    was_evaluated = any(not given.keys() >= {use.tensor for use in call.outputs} for call in computed)
    return 2 * len(frozen) > len(given) and not was_evaluated


def _holds_statistics(case: Case, asleep: list[int]) -> bool:
    """Whether the program puts only its batch normalizations into evaluation mode, as fine-tuning often does: a line
    beside ``eval()`` asks for their class."""
    calls = case.dataflow.log.calls
    if any(OTHERWISE_IN_TRAINING[calls[row].function] == "dropout" for row in asleep):
        return False
    return any(
        _SWITCH.search(text) and any(_CLASS.search(lines.get(number - above, "")) for above in range(_LINES_ABOVE))
        for lines in case.capture.sources.values()
        for number, text in lines.items()
    )


_SWITCH = re.compile(r"\.(eval\(\)|train\((mode=)?False\))")
_CLASS = re.compile(r"isinstance\(.*(Batch|batch|_)Norm")
_LINES_ABOVE = 3


def _graph(case: Case, root: int, backward: int) -> tuple[int, ...]:
    return case.dataflow.ancestors(root, backward, case.dataflow.step_before(backward))


def _last_steps(case: Case) -> dict[int, int]:
    """By parameter: the last step of an optimizer that has it."""
    found: dict[int, int] = {}
    for number, steps in case.histories.steps_by_optimizer.items():
        for tensor in () if number is None else chain.from_iterable(case.histories.log.optimizers[number].groups):
            found[tensor] = max(found.get(tensor, -1), *steps)
    return found


def _is_trained_there(case: Case, row: int, backward: int, last_steps: dict[int, int]) -> bool:
    """Whether a gradient goes through the call to something that an optimizer trains with it; not to a teacher, nor to
    one whose own training is over."""
    call = case.dataflow.log.calls[row]
    if not any(use.requires_grad for use in call.outputs) or _is_frozen(case, call):
        return False
    if _is_of_finished_model(case, call, backward, last_steps):
        return False
    live = [use.tensor for use in call.live_inputs]
    leaves, _ = case.histories.live_leaves(live, row)
    own = {tensor for tensor in live if case.dataflow.log.tensors[tensor].role == "parameter"} & case.histories.trained
    trained = own or (leaves | set(live)) & case.histories.trained
    return any(last_steps.get(tensor, backward + 1) > backward for tensor in trained)


def _is_of_finished_model(case: Case, call: Call, backward: int, last_steps: dict[int, int]) -> bool:
    """Whether a call is one of a whole model of which no step changes anything from then on, such as a frozen model of
    rewards through which the gradient of another one goes."""
    scopes = case.dataflow.log.scopes
    around = list(scopes_around(scopes, call.scope))
    own = case.histories.parameters_below(scopes[around[-1]].path) if around else []
    trained = case.histories.trained.intersection(own)
    return bool(own) and all(last_steps.get(tensor, backward + 1) <= backward for tensor in trained)


def _is_frozen(case: Case, call: Call) -> bool:
    """Whether a normalization has weights of its own, and none of them is trained: it is held still on purpose."""
    own = [use for use in call.inputs if case.dataflow.log.tensors[use.tensor].role == "parameter"]
    return bool(own) and not any(use.requires_grad for use in own)


def _line_of_switch(case: Case, forward: Location | None) -> Location | None:
    """The only line of the program that calls ``eval()``; None if there are several, or it is unknown."""
    sources = case.capture.sources.get(forward.file, {}) if forward is not None else {}
    lines = [number for number, text in sources.items() if _SWITCH.search(text)]
    return Location(forward.file, lines[0]) if forward is not None and len(lines) == 1 else None
