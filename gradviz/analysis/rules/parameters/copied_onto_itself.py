"""GV713."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.kept_values import ASSIGNS_DATA, is_changed_beside, is_written_back, taken_from_itself
from gradviz.analysis.parameters.moving_averages import is_averaged_with_itself, parameter_of
from gradviz.analysis.parameters.second_names import SecondName, assigned_names, second_names
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.shared_states import AssignedState, OwnState, assigned_models, own_states
from gradviz.graph.call_log import Call

_COPIES = frozenset({"copy", "lerp"})
_CHANGES = _COPIES | {"add"}


class CopiedOntoItself(Rule):
    """Parameters are copied onto themselves, or averaged with themselves.

    What it finds
    -------------
    ``load_state_dict``, ``copy_``, ``lerp_`` and the same for lists (``torch._foreach_copy_``) after the first step
    whose source is the parameter itself, or shares its memory; assignments to ``.data`` of what was kept without
    ``clone()`` before the parameter was changed in place, as for the way back of a sharpness-aware step; also a moving
    average of a parameter with itself. A second name for a model (``target = online``) that is used as a copy would be:
    without gradients for the target of a loss that trains the model, or frozen although an optimizer has it. Likewise a
    model that loads the state of another one with ``assign=True``, and an optimizer that loads a state of its own that
    was kept without a copy.

    Why it matters
    --------------
    ``state_dict()`` gives the parameters, not a copy: what was kept as the best state follows every further step, and
    loading it restores nothing. Two names for one model are the same mistake: a target or a teacher that was assigned
    instead of copied trains with the other one.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        if step == 1:
            best = model.state_dict()
    model.load_state_dict(best)

    Instead
    -------
    import copy

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        if step == 1:
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    """

    code = "GV713"
    name = "copied_onto_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        first = next(iter(histories.steps), None)
        by_line: dict[Location | None, list[tuple[int, Call]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            for each in flow.lists.singles(row) if first is not None and row > first and len(call.inputs) > 1 else ():
                if len(each.inputs) > 1 and _is_of_itself(case, row, each):
                    by_line[location_of_call(flow, row)].append((row, each))
        found = (self._finding(case, location, calls) for location, calls in by_line.items())
        # A copy that one line keeps may be averaged on one line and given back on another.
        told = list({(each.location, each.message): each for each in found}.values())
        yield from told
        for second in second_names(histories, case.capture.sources):
            if second.location not in [each.location for each in told]:
                yield self._second_name(case, second)
        yield from map(self._of_optimizer, own_states(case))
        yield from (self._assigned(case, each) for each in assigned_models(case))

    def _of_optimizer(self, own: OwnState) -> Finding:
        name = optimizer_words(own.optimizer)
        return self.finding(
            f"the state of {name} that is kept here changes with each of its steps: loading it{at_line(own.loaded)} "
            "gives nothing back",
            symptom="grad_wrong",
            why="state_dict() of an optimizer holds the tensors that step() changes in place, momentum and averages, "
            "and no copies of them",
            fix="keep a copy: copy.deepcopy(optimizer.state_dict())",
            location=own.kept,
            symptom_location=own.loaded,
        )

    def _assigned(self, case: Case, assigned: AssignedState) -> Finding:
        return self.finding(
            f"{assigned.name} gets the parameters of {assigned.source} themselves: each step that changes "
            f"{assigned.source} changes {assigned.name} as well",
            symptom="grad_wrong",
            why="with assign=True the given tensors become the parameters, and state_dict() shares the memory of the "
            "model",
            fix="leave assign=True out, so that the values are copied, or load "
            f"copy.deepcopy({assigned.source}.state_dict())",
            location=assigned.location,
            tensors=names_of(case.dataflow, list(assigned.parameters)),
            evidence={"parameters": len(assigned.parameters)},
        )

    def _second_name(self, case: Case, second: SecondName) -> Finding:
        used = None if second.cut_by is None else location_of_call(case.dataflow, second.cut_by)
        how = "is frozen, although an optimizer has it" if used is None else "is used without gradients for a loss"
        return self.finding(
            f"{second.name} is {second.model} itself, not a copy of it: {second.name} {how}",
            severity="error" if used is None else "warning",
            symptom="grad_none" if used is None else "grad_wrong",
            why="an assignment copies no model: both names mean the same parameters, and they train together",
            fix=f"make a copy: {second.name} = copy.deepcopy({second.model})",
            location=second.location,
            symptom_location=used,
            # With these names it replaces what other rules say of the frozen parameters.
            tensors=() if used is not None else names_of(case.dataflow, second.parameters),
            evidence={"parameters": len(second.parameters)},
        )

    def _finding(self, case: Case, location: Location | None, calls: list[tuple[int, Call]]) -> Finding:
        flow = case.dataflow
        targets = (_target(case, row, call) for row, call in calls)
        tensors = list(dict.fromkeys(target for target in targets if target is not None))
        row, call = calls[0]
        is_average = plain_name(call.function) == "add"
        # What shares the memory of a parameter: what is changed, or else what is copied into it.
        sharing = (use.tensor for use in call.inputs[: 1 if is_average else 2] if use.tensor != tensors[0])
        taken = None if is_average else taken_from_itself(flow, row, call, tensors[0])
        makers = (
            taken if taken not in (None, row) else None,
            *(next(iter(flow.producers(each, row)), None) for each in sharing),
        )
        lines = (location_of_call(flow, made) for made in makers if made is not None)
        kept = next((line for line in lines if line not in (None, location)), None)
        where = kept or _second_name(case, location, tensors[0]) or location
        verdict, why, fix = _words(call, case.histories.together(tensors), is_one=len(tensors) == 1)
        is_trained = bool(case.histories.trained.intersection(tensors))
        return self.finding(
            verdict,
            symptom="grad_wrong",
            why=why,
            fix=fix
            if is_trained
            else "take the values of the trained model: target.load_state_dict(model.state_dict())",
            location=where,
            symptom_location=location if where != location else None,
            tensors=names_of(flow, tensors),
            evidence={"parameters": len(tensors), "copies": len(calls)},
        )


def _words(call: Call, names: str, *, is_one: bool) -> tuple[str, str, str]:
    """Verdict, reason and remedy."""
    them = "it" if is_one else "them"
    if call.function == ASSIGNS_DATA:
        return (
            f"what was kept of {names} shares {'its' if is_one else 'their'} memory and has changed with {them}: "
            "assigning it to .data gives nothing back",
            ".data and detach() share the memory of a parameter: what changes it in place changes both",
            "keep a copy of the values: p.data.clone()",
        )
    does = "averaged with" if plain_name(call.function) == "add" else "copied onto"
    effect = f"only shrinks {them}" if does == "averaged with" else "changes nothing"
    shares = "state_dict() and detach() share the memory of the parameters, and " if does == "copied onto" else ""
    return (
        f"{names} {'is' if is_one else 'are'} {does} {'itself' if is_one else 'themselves'}: that {effect}",
        f"{shares}an assignment copies no model" + ("" if shares else ": both names mean the same parameters"),
        "keep a copy: copy.deepcopy(model.state_dict()), or copy.deepcopy(model) for a second model",
    )


def _second_name(case: Case, copying: Location | None, tensor: int) -> Location | None:
    """The only line that gives the model of a parameter a second name, ``target = model``; else the only one of that
    file that makes a shallow copy, whatever the model is called there."""
    words = set(case.histories.name(tensor).split(".")[:-1])
    lines = {} if copying is None else case.capture.sources.get(copying.file, {})
    found = [
        number
        for number, text in lines.items()
        if not words.isdisjoint(model.rpartition(".")[2] for _, model in assigned_names(text))
    ] or [number for number, text in lines.items() if _SHALLOW in text and list(assigned_names(text))]
    return Location(copying.file, found[0]) if copying is not None and len(found) == 1 else None


_SHALLOW = "copy.copy("


def _target(case: Case, row: int, call: Call) -> int | None:
    """The parameter that a call changes, perhaps through what ``detach()`` gave of it."""
    number, histories = call.inputs[0].tensor, case.histories
    if number in histories.trained or histories.tensor(number).role == "parameter":
        return number
    return parameter_of(case.dataflow, number, row)


def _is_of_itself(case: Case, row: int, call: Call) -> bool:
    """Whether a call copies a parameter onto itself, gives it back what has changed with it, or averages it with
    itself."""
    flow, name, is_assigned = case.dataflow, plain_name(call.function), call.function == ASSIGNS_DATA
    target = _target(case, row, call) if is_assigned or name in _CHANGES else None
    if target is None or name == "add":
        return target is not None and is_averaged_with_itself(flow, row, target)
    kept = taken_from_itself(flow, row, call, target)
    if kept is None or is_assigned:
        return kept is not None and is_changed_beside(flow, kept, row, call)
    return not is_written_back(flow, kept, row, call)
