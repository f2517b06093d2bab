"""GV712."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding, Location, Severity, location_of_line
from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.parameters.frozen_parameters import found_no_parameters
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.fresh_operands import uses_as_noise
from gradviz.analysis.rules.bases.formulas.neutral_values import neutral_effect
from gradviz.analysis.rules.bases.sources.kept_tensors import attribute_that_keeps, is_in_a_module
from gradviz.analysis.rules.bases.sources.names.names_in_rows import is_fourth, parameters_beside
from gradviz.analysis.sources.source_tree import called_name, tree_of
from gradviz.graph.call_log import Call, TensorUse

_IN_INIT = re.compile(r"__init__(\.<locals>\.<(list|dict|set)comp>|\.<locals>\.<genexpr>)*$")
_MIN_STEPS = 2
_MAX_CALLS = 20
_AVERAGE = "; it is a running average of the data, which no saved state_dict has, and which .to() does not move"
_STATISTICS = frozenset({"mean", "var", "std", "var_mean", "std_mean"})
_DRAWS = frozenset({"randn", "rand", "normal", "uniform", "trunc_normal", "randn_like", "rand_like", "bernoulli"})


class PlainTensor(Rule):
    """A module keeps a tensor that is neither a parameter nor a buffer, and computes with it in training.

    What it finds
    -------------
    A tensor of floating-point or complex numbers that ``__init__`` assigns to ``self`` as it is, or in a dict or list,
    and that the module uses together with trained values at every step. It is a warning if the tensor was drawn at
    random (nothing trains or saves these numbers), or if it changes nothing (zeros that are added, ones that are
    multiplied), or is named as a fourth one beside three parameters (``b_std``, with ``w_mean``, ``w_std`` and
    ``b_mean``), and an error if it is zeros that remove a gradient. Else it is a note: the tensor may be a constant on
    purpose. Of the tensors that the program changes itself, only running averages of means and deviations are told, as
    a warning, also where one module averages them, and another of the class, which got its parameters, begins anew.

    Why it matters
    --------------
    A module trains only what is a `torch.nn.Parameter`. A plain tensor keeps its first values. Nor is it in the
    state_dict, and ``to()`` does not move it to another device.

    Example
    -------
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)
            self.scale = torch.ones(1)

        def forward(self, x):
            return self.linear(x) * self.scale

    model = Scale()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.linear(x) * self.scale

    model = Scale()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV712"
    name = "plain_tensor"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        if found_no_parameters(case.capture.error):
            yield from self._of_empty_module(case)
        if not histories.steps or not histories.reached:
            return
        kept: dict[int, str | None] = {}
        uses: dict[int, dict[int, int]] = defaultdict(dict)
        step = 0
        for row, call in enumerate(case.dataflow.log.calls):
            step += call.kind == "step"
            for use in call.inputs if call.kind == "operation" else ():
                if _is_constant(use):
                    if use.tensor not in kept:
                        kept[use.tensor] = _attribute(case, use.tensor)
                    if kept[use.tensor] is not None:
                        uses[use.tensor].setdefault(step, row)
        told = set[tuple[str, Location | None]]()
        for tensor, name in kept.items():
            rows = list(uses[tensor].values())
            if name is None or len(rows) < _MIN_STEPS:
                continue
            if _changes(case, tensor) and not _is_average(case, tensor):
                continue
            made = case.dataflow.log.tensors[tensor].producer
            if made is not None and uses_as_noise(case, made):
                continue
            if all(_meets_trained_values(case, tensor, row) for row in rows[:_MIN_STEPS]):
                finding = self._finding(case, tensor, name, rows[-1])  # The first may be in `__init__`, too.
                if (name, finding.location) not in told:  # A dict or a list has several.
                    told.add((name, finding.location))
                    yield finding

    def _of_empty_module(self, case: Case) -> Iterator[Finding]:
        """The tensors of modules that make no parameter and no other module, where an optimizer got no parameters."""
        error = case.capture.error
        for tensor, known in enumerate(case.dataflow.log.tensors):
            name = None if known.producer is None else _attribute(case, tensor)
            location = None if known.producer is None else location_of_call(case.dataflow, known.producer)
            if name is not None and location is not None and _makes_nothing_else(case, location):
                yield self.finding(
                    f"an optimizer was given no parameters, and self.{name} is a plain tensor, which parameters() does "
                    "not contain",
                    severity="error",
                    symptom="raises",
                    why="a module's parameters() and state_dict() have only what was assigned as torch.nn.Parameter, "
                    "or registered as a buffer",
                    fix="assign torch.nn.Parameter(...)",
                    location=location,
                    symptom_location=None if error is None or error.call_site is None else Location(*error.call_site),
                )

    def _finding(self, case: Case, tensor: int, name: str, row: int) -> Finding:
        flow = case.dataflow
        made = flow.log.tensors[tensor].producer
        location = None if made is None else location_of_call(flow, made)
        dead = tuple(dict.fromkeys(name for zero in _zeros_of(case, location) for name in zero.leaves))
        is_average = bool(_changes(case, tensor)) or (made is not None and _is_average_elsewhere(case, tensor, made))
        role, severity = (_AVERAGE, "warning") if is_average else _role_of(case, tensor, row)
        if severity == "note" and location is not None and _is_named_like_parameters(case, location, name):
            role, severity = "; the module has parameters of the same names, but for this one", "warning"
        return self.finding(
            f"self.{name} is a plain tensor, neither a parameter nor a buffer"
            + ("" if is_average else ": no optimizer trains it")
            + (f"; it is all zeros, so the gradient of {together(dead)} is zero" if dead else role),
            severity="error" if dead else severity,
            why="a module's parameters() and state_dict() have only what was assigned as torch.nn.Parameter, or "
            "registered as a buffer",
            fix="if it should train, assign torch.nn.Parameter(...), and several of them in torch.nn.ParameterDict or "
            f"ParameterList; else call register_buffer({name!r}, ...)",
            location=location,
            tensors=dead,
        )


def _makes_nothing_else(case: Case, location: Location) -> bool:
    """Whether the class around a line makes no parameter, and nothing that may have some."""
    tree = tree_of(case.capture.sources.get(location.file, {}))
    statement = tree.statement_at(location.line)
    owner = None if statement is None else tree.class_around(statement)
    return owner is not None and not any(called_name(each)[:1].isupper() for each in ast.walk(owner))


def _is_named_like_parameters(case: Case, location: Location, name: str) -> bool:
    tree = tree_of(case.capture.sources.get(location.file, {}))
    return is_fourth(name, parameters_beside(tree, location.line))


def _zeros_of(case: Case, location: Location | None) -> list[ZeroGradient]:
    """The zero gradients that have their origin in the values that a line made."""
    return [
        zero
        for zero in case.zero_gradients
        if zero.by == "value" and location is not None and case.location_of_site(zero.blamed_site) == location
    ]


def _role_of(case: Case, tensor: int, row: int) -> tuple[str, Severity]:
    """What its values tell of its purpose, and how sure it is that a plain tensor does not serve it."""
    flow = case.dataflow
    draws = [above for above in flow.ancestors(tensor, row) if plain_name(flow.log.calls[above].function) in _DRAWS]
    # What was drawn before the module was made may be the data that it is made for.
    if any(_IN_INIT.search(line.function) for draw in draws for line in callers(flow, draw)):
        severity: Severity = "note" if _gives_frequencies(flow, tensor, row) else "warning"
        return "; it was drawn at random, and a saved state_dict does not have it", severity
    effect = neutral_effect(flow, tensor, row)
    return (
        ("", "note") if effect is None else (f"; {effect}, which changes nothing as long as it is constant", "warning")
    )


def _gives_frequencies(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether only sines and cosines are taken of its products with data: random Fourier features stay as they were
    drawn (Rahimi and Recht 2007)."""
    until, is_found = flow.next_of_kind("backward", row), False
    for _, user, call in flow.users_below(tensor, row - 1, _MAX_CALLS, _is_linear):
        if user < until and call.kind == "operation":
            is_wave = plain_name(call.function) in _WAVES
            if not is_wave and not _is_linear(call):
                return False
            is_found |= is_wave
    return is_found


def _is_linear(call: Call) -> bool:
    """Whether a call computes with data, and without trained values, what is linear in a tensor."""
    return plain_name(call.function) in _LINEAR and not call.live_inputs


_WAVES = frozenset({"sin", "cos"})
_LINEAR = frozenset({"matmul", "mm", "linear", "mul", "div", "add", "sub", "t", "T", "mT", "transpose", "unsqueeze"})


def _is_constant(use: TensorUse) -> bool:
    return not use.requires_grad and use.is_leaf


def _attribute(case: Case, tensor: int) -> str | None:
    """The attribute of a module to which the line that made a tensor assigns it; None if there is none."""
    flow = case.dataflow
    known = flow.log.tensors[tensor]
    if (
        known.role != "tensor"
        or not known.facts.dtype.startswith(("float", "bfloat", "complex"))
        or known.producer is None
    ):
        return None
    line = flow.line_of(known.producer)
    made = location_of_line(line)
    if line is None or made is None or not _IN_INIT.search(line.function):
        return None
    tree, text = tree_of(case.capture.sources.get(made.file) or {1: ""}), (case.source_line(made) or "").strip()
    found = attribute_that_keeps(tree, made.line) if tree.module.body else attribute_that_keeps(tree_of({1: text}), 1)
    return found if found is not None and is_in_a_module(case, made) else None


def _meets_trained_values(case: Case, tensor: int, row: int) -> bool:
    """Whether a result of it has a history when the next backward begins."""
    backward = case.histories.backward_after(row)
    below = () if backward is None else case.dataflow.descendants(tensor, row - 1, backward)
    return any(use.has_grad_fn for each in below for use in case.dataflow.log.calls[each].outputs)


def _changes(case: Case, tensor: int) -> list[int]:
    """The calls of the training in which the program updates it itself."""
    steps = case.histories.steps
    return [row for row in case.dataflow.changes(tensor, -1, len(case.dataflow.log.calls)) if row > steps[0]]


def _is_average(case: Case, tensor: int) -> bool:
    changes = _changes(case, tensor)
    return bool(changes) and all(_averages_data(case.dataflow, tensor, row) for row in changes)


def _is_average_elsewhere(case: Case, tensor: int, made: int) -> bool:
    """Whether another module of the class, made before, averaged data in the attribute that this one has as it was
    made: a state that was loaded brought the parameters, and not that."""
    calls = case.dataflow.log.calls
    others = [
        use.tensor
        for row in case.dataflow.rows_of_function(calls[made].function)
        if row < made and calls[row].call_site is not None and _line(case, row) == _line(case, made)
        for use in calls[row].outputs
    ]
    return any(_is_average(case, other) for other in others if other != tensor)


def _line(case: Case, row: int) -> Location | None:
    return location_of_call(case.dataflow, row)


def _averages_data(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a call moves a tensor a part of the way to a mean or a deviation of data, as running statistics do."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name == "mul":
        return len(call.inputs) == 1
    if name not in ("lerp", "add", "copy", "sub") or (call.live_inputs and call.grad_mode == "enabled"):
        return False
    others = [use for use in call.inputs if use.tensor != tensor]
    above = [
        each
        for use in others
        for _, each in flow.makers_above(
            use.tensor, row, _MAX_CALLS, lambda call: () if _is_statistic(call) else call.inputs
        )
    ]
    return any(map(_is_statistic, above))


def _is_statistic(call: Call) -> bool:
    return plain_name(call.function) in _STATISTICS
