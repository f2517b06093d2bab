"""GV712."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import TensorUse

_KEPT = re.compile(r"^\s*self\.(?P<name>\w+)\s*(:[^=]+)?=[^=]")
_CLASS = re.compile(r"^\s*class \w+\s*\((?P<bases>[^)]*)\)")
_MIN_STEPS = 2


class PlainTensor(Rule):
    """A module keeps a tensor that is neither a parameter nor a buffer, and computes with it in training.

    What it finds
    -------------
    A tensor of floating-point numbers that ``__init__`` assigns to ``self`` as it is, and that the module uses together
    with trained values at every step. It is a note: the tensor may be a constant on purpose.

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
    severity = "note"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
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
        for tensor, name in kept.items():
            rows = list(uses[tensor].values())
            if name is None or len(rows) < _MIN_STEPS or _is_changed(case, tensor):
                continue
            if all(_meets_trained_values(case, tensor, row) for row in rows[:_MIN_STEPS]):
                yield self._finding(case, tensor, name)

    def _finding(self, case: Case, tensor: int, name: str) -> Finding:
        flow = case.dataflow
        made = flow.log.tensors[tensor].producer
        return self.finding(
            f"self.{name} is a plain tensor, neither a parameter nor a buffer: no optimizer trains it",
            why="a module's parameters() has only what was assigned as torch.nn.Parameter",
            fix=f"if it should train, assign torch.nn.Parameter(...); else call register_buffer({name!r}, ...)",
            location=None if made is None else location_of_call(flow, made),
        )


def _is_constant(use: TensorUse) -> bool:
    return not use.requires_grad and use.is_leaf


def _attribute(case: Case, tensor: int) -> str | None:
    """The attribute of a module to which the line that made a tensor assigns it; None if there is none."""
    flow = case.dataflow
    known = flow.log.tensors[tensor]
    if known.role != "tensor" or not known.facts.dtype.startswith(("float", "bfloat")) or known.producer is None:
        return None
    line = flow.line_of(known.producer)
    made = location_of_line(line)
    if line is None or made is None or not line.function.endswith("__init__"):
        return None
    found = _KEPT.match(case.source_line(made) or "")
    return found["name"] if found is not None and _is_in_a_module(case, made) else None


def _is_in_a_module(case: Case, made: Location) -> bool:
    """Whether the class around a line is a module, as far as its text tells."""
    for number in range(made.line - 1, 0, -1):
        found = _CLASS.match(case.source_line(Location(made.file, number)) or "")
        if found is not None:
            return "Module" in found["bases"] or "nn." in found["bases"]
    return False


def _meets_trained_values(case: Case, tensor: int, row: int) -> bool:
    """Whether a result of it has a history when the next backward begins."""
    backward = next((each for each in case.histories.backward_calls if each > row), None)
    below = () if backward is None else case.dataflow.descendants(tensor, row - 1, backward)
    return any(use.has_grad_fn for each in below for use in case.dataflow.log.calls[each].outputs)


def _is_changed(case: Case, tensor: int) -> bool:
    """Whether it is a state that the program updates itself."""
    steps = case.histories.steps
    return any(row > steps[0] for row in case.dataflow.changes(tensor, -1, len(case.dataflow.log.calls)))
