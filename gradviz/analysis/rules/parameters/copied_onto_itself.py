"""GV713."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.moving_averages import is_averaged_with_itself, parameter_of
from gradviz.analysis.parameters.second_names import SecondName, assigned_names, second_names
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call

_COPIES = frozenset({"copy", "lerp"})
_SAME_MEMORY = frozenset({"detach", "data"})
_MAX_STEPS = 5


class CopiedOntoItself(Rule):
    """Parameters are copied onto themselves, or averaged with themselves.

    What it finds
    -------------
    ``load_state_dict``, ``copy_`` and ``lerp_`` after the first step whose source is the parameter itself, or shares
    its memory; also a moving average of a parameter with itself. A second name for a model (``target = online``) that
    is used as a copy would be: without gradients for the target of a loss that trains the model, or frozen although an
    optimizer has it.

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
        by_line: dict[Location | None, list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            name = plain_name(call.function)
            if first is None or row < first or name not in (*_COPIES, "add") or len(call.inputs) < 2:
                continue
            target = _target(case, row, call)
            if target is None:
                continue
            if _is_itself(case, row, call, target) if name in _COPIES else is_averaged_with_itself(flow, row, target):
                by_line[location_of_call(flow, row)].append(row)
        told = [self._finding(case, location, rows) for location, rows in by_line.items()]
        yield from told
        for second in second_names(histories, case.capture.sources):
            if second.location not in [each.location for each in told]:
                yield self._second_name(case, second)

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

    def _finding(self, case: Case, location: Location | None, rows: list[int]) -> Finding:
        flow = case.dataflow
        targets = (_target(case, row, flow.log.calls[row]) for row in rows)
        tensors = list(dict.fromkeys(target for target in targets if target is not None))
        call = flow.log.calls[rows[0]]
        is_average = plain_name(call.function) == "add"
        # What shares the memory of a parameter: what is changed, or else what is copied into it.
        changed, given = (use.tensor for use in call.inputs[:2])
        shared = changed if is_average or changed != tensors[0] else given
        made = next(iter(flow.producers(shared, rows[0])), None) if shared != tensors[0] else None
        kept = None if made is None else location_of_call(flow, made)
        where = kept if kept not in (None, location) else _second_name(case, location, tensors[0]) or location
        one = len(tensors) == 1
        does = "averaged with" if is_average else "copied onto"
        effect = f"only shrinks {'it' if one else 'them'}" if is_average else "changes nothing"
        return self.finding(
            f"{case.histories.together(tensors)} {'is' if one else 'are'} {does} {'itself' if one else 'themselves'}: "
            f"that {effect}",
            symptom="grad_wrong",
            why="an assignment copies no model: both names mean the same parameters"
            if is_average
            else "state_dict() and detach() share the memory of the parameters, and an assignment copies no model",
            fix="keep a copy: copy.deepcopy(model.state_dict()), or copy.deepcopy(model) for a second model"
            if case.histories.trained.intersection(tensors)
            else "take the values of the trained model: target.load_state_dict(model.state_dict())",
            location=where,
            symptom_location=location if where != location else None,
            tensors=names_of(flow, tensors),
            evidence={"parameters": len(tensors), "copies": len(rows)},
        )


def _second_name(case: Case, copying: Location | None, tensor: int) -> Location | None:
    """The only line that gives the model of a parameter a second name: ``target = model``."""
    words = set(case.histories.name(tensor).split(".")[:-1])
    lines = {} if copying is None else case.capture.sources.get(copying.file, {})
    found = [
        number
        for number, text in lines.items()
        if not words.isdisjoint(model.rpartition(".")[2] for _, model in assigned_names(text))
    ]
    return Location(copying.file, found[0]) if copying is not None and len(found) == 1 else None


def _target(case: Case, row: int, call: Call) -> int | None:
    """The parameter that a call changes, perhaps through what ``detach()`` gave of it."""
    number, histories = call.inputs[0].tensor, case.histories
    if number in histories.trained or histories.tensor(number).role == "parameter":
        return number
    return parameter_of(case.dataflow, number, row)


def _is_itself(case: Case, row: int, call: Call, target: int) -> bool:
    """Whether the source is the target, or was only taken from it as it is."""
    flow = case.dataflow
    source, before = call.inputs[1].tensor, row
    for _ in range(_MAX_STEPS):
        if source == target:
            return True
        # What changed the target has changed its source, too: that is no other source.
        makers = [
            each
            for each in flow.producers(source, before)
            if plain_name(flow.log.calls[each].function) in _SAME_MEMORY and flow.log.calls[each].inputs
        ]
        if not makers:
            return False
        before = makers[-1]
        source = flow.log.calls[before].inputs[0].tensor
    return False
