"""Two variables for one model, where the program treats the second one as a copy: ``target = online``.

The source has an assignment that copies nothing, and one of these shows that a copy was meant: what the second name
computes is cut off from the loss that trains the first one, as that of a target is; or the model was frozen, although
an optimizer has it.

>>> list(assigned_names("target, other = online, net.eval()"))
[('target', 'online'), ('other', 'net')]
>>> list(assigned_names("target = copy.deepcopy(online)"))
[]
>>> list(assigned_names("layer = layer.inner"))  # goes on to a part, and forgets the whole
[]
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.model import CallSite

_RETURN_THEMSELVES = frozenset({"eval", "train", "requires_grad_", "to", "cpu", "cuda", "float", "double", "half"})
_FREEZES = "requires_grad_(False)"
_MAY_NAME_AGAIN = re.compile(r"^[\w., ]+=[\w., ()]+(#.*)?$")
Sources = Mapping[str, Mapping[int, str]]


class SecondName(Struct, frozen=True):
    """One assignment that gives a model a second name."""

    name: str
    model: str
    location: Location
    parameters: tuple[int, ...]
    """The trained parameters of the model."""
    cut_by: int | None
    """A call of the second name whose result the loss treats as a constant; None if the model is frozen."""


def second_names(histories: ParameterHistories, sources: Sources) -> Iterator[SecondName]:
    """In the order of the lines."""
    models = _trained_models(histories)
    for file, lines in sources.items():
        found = [
            (name, model, number)
            for number, text in lines.items()
            if _MAY_NAME_AGAIN.match(text.strip())
            for name, model in assigned_names(text)
        ]
        freezing = {model for _, model, number in found if _FREEZES in lines[number]}
        for name, model, number in found:
            if model in freezing and _FREEZES not in lines[number]:
                continue  # the name of the model that another line freezes by a second one
            known_as = (model, name, *(other for other, same, _ in found if same == model))
            parameters = next((models[_last(each)] for each in known_as if _last(each) in models), None)
            if parameters is None or not _is_only_value(name, lines):
                continue
            is_frozen = _is_frozen(histories, parameters)
            cut_by = None if is_frozen else _cut_off_by(histories, file, lines, name, parameters)
            if is_frozen or cut_by is not None:
                yield SecondName(name, model, Location(file, number), tuple(parameters), cut_by)


def assigned_names(line: str) -> Iterator[tuple[str, str]]:
    """The names that a line assigns to what another name means, with that name."""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    targets, values = _elements(statement.targets[0]), _elements(statement.value)
    for target, value in zip(targets, values, strict=False) if len(targets) == len(values) else ():
        name, model = _dotted(target), _dotted(_itself(value))
        if name is not None and model is not None and _last(name) != _last(model) and not model.startswith(f"{name}."):
            yield name, model


def _elements(expression: ast.expr) -> list[ast.expr]:
    return expression.elts if isinstance(expression, ast.Tuple) else [expression]


def _itself(value: ast.expr) -> ast.expr:
    """The module that a chain of methods such as ``net.eval().requires_grad_(False)`` returns, or whose parameters a
    shallow copy shares: ``copy.copy(net)``."""
    while isinstance(value, ast.Call) and isinstance(function := value.func, ast.Attribute):
        if _dotted(function) == "copy.copy" and len(value.args) == 1:
            value = value.args[0]
        elif function.attr in _RETURN_THEMSELVES:
            value = function.value
        else:
            break
    return value


def _dotted(expression: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    return ".".join([expression.id, *reversed(parts)]) if isinstance(expression, ast.Name) else None


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _trained_models(histories: ParameterHistories) -> dict[str, list[int]]:
    """By the variables and attributes that lead to it: the trained parameters of a model."""
    found: dict[str, list[int]] = defaultdict(list)
    for number in sorted(histories.trained):
        tensor = histories.tensor(number)
        for part in {part for name in tensor.names for part in name.split(".")[:-1]}:
            if tensor.role == "parameter":
                found[part].append(number)
    return found


def _is_only_value(name: str, lines: Mapping[int, str]) -> bool:
    """Whether the name is assigned once in its file."""
    assigns = re.compile(rf"(^|,)\s*{re.escape(name)}\s*(,[\w., ]*)?=[^=]")
    return sum(assigns.search(text) is not None for text in lines.values()) == 1


def _is_frozen(histories: ParameterHistories, parameters: list[int]) -> bool:
    """Whether it never trained: a model that is frozen after its training is none of these."""
    calls = histories.log.calls
    last = {number: calls[rows[-1]] for number in parameters if (rows := histories.flow.users(number))}
    return len(last) == len(parameters) and not any(
        histories.is_ever_stepped_live(number) or any(use.requires_grad for use in call.inputs if use.tensor == number)
        for number, call in last.items()
    )


def _cut_off_by(
    histories: ParameterHistories, file: str, lines: Mapping[int, str], name: str, parameters: list[int]
) -> int | None:
    """A call by the second name, without gradients or with a detached result, of which a loss of the model is computed.

    None if the loss also has results of that name that it differentiates: then it is no target.
    """
    flow, calls = histories.flow, histories.log.calls
    reads = re.compile(rf"(?<![\w.]){re.escape(name)}\s*[.(]")
    cuts = {cut.call for cut in flow.cuts}

    def is_by_name(row: int) -> bool:
        return any(_reads(line, file, lines, reads) for line in callers(flow, row))

    for backward in histories.last_trained_backward_of_each_line:
        if histories.reached_by[backward].isdisjoint(parameters):
            continue
        live = reached_by(flow, backward).members
        above = [
            row
            for root in calls[backward].roots
            for row in flow.ancestors(root.tensor, backward, flow.step_before(backward))
        ]
        dead = (
            row for row in above if row in cuts or (calls[row].grad_mode != "enabled" and calls[row].scope is not None)
        )
        found = next((row for row in dead if is_by_name(row)), None)
        if found is not None and not any(is_by_name(row) for row in live - cuts):
            return found
    return None


def _reads(line: CallSite, file: str, lines: Mapping[int, str], reads: re.Pattern[str]) -> bool:
    return line.file == file and reads.search(lines.get(line.line, "")) is not None
