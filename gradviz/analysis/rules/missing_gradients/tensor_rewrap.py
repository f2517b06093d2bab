"""GV106."""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import blamed_call
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import callers, short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.cut_lines import BetterLine
from gradviz.analysis.rules.bases.cut_rule import CutRule
from gradviz.analysis.rules.bases.sources.lines.lines_that_return import line_that_returns_number
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, all_parameters_of, called_name

_WRITTEN = {"__float__": "float", "__int__": "int", "__bool__": "bool", "__index__": "as an index"}


class TensorRewrap(CutRule):
    """A new tensor was made from the values of another one, without its history.

    What it finds
    -------------
    ``item()``, ``float()`` or ``tolist()``, ``torch.tensor(t)``, ``Variable(t)`` or ``nn.Parameter(t)`` on a result,
    where the new number or tensor is used in the loss and some trained tensors have no other path to it. Where a
    function keeps the number for a log, and returns it to what computes the loss, it is the line of the ``return``.

    Why it matters
    --------------
    A Python number has no history, and a new tensor or parameter starts a new one. With ``requires_grad=True`` on it,
    ``backward()`` runs without an error, ends at the new tensor, and nothing learns.

    Example
    -------
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = [model(torch.randn(4, 8)).square().mean().item() for _ in range(3)]
    loss = torch.tensor(sum(losses) / 3, requires_grad=True)
    loss.backward()
    optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = [model(torch.randn(4, 8)).square().mean() for _ in range(3)]
    loss = torch.stack(losses).mean()
    loss.backward()
    optimizer.step()
    """

    code = "GV106"
    name = "tensor_rewrap"
    yields_to = ("stale_optimizer_params",)

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        if found.cut.kind == "parameter":
            return "making a new nn.Parameter from the result"
        if found.cut.kind == "rewrap":
            return f"{flow.log.calls[found.cut.call].function}(...)"
        call = flow.log.calls[blamed_call(flow, found)]
        return f"turning it into a Python number ({_WRITTEN.get(short_name(call.function), short_name(call.function))})"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        if found.cut.kind == "parameter":
            return "a new parameter has the values of the result but no history: it is a leaf, where gradients end"
        if found.is_parameter_as_number:
            return "a Python number has no history: for the operation that takes it, it is a constant"
        return "only the values are copied; the new tensor does not know what they were computed from"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        if found.cut.kind == "parameter":
            return "use the result itself (torch.func.functional_call runs a module with computed weights)"
        if found.is_parameter_as_number:
            return (
                "give the operation the parameter itself, and compute with it in torch: torch.exp(p) for "
                "math.exp(p.item()); as a bound: torch.minimum(x, bound), torch.maximum(x, bound)"
            )
        if flow.log.calls[found.cut.call].function.endswith(".Variable"):
            return "remove Variable(): since torch 0.4 every tensor is a variable"
        return "keep tensors: add them up or torch.stack them, and call item() only on what you print"

    def better_line(self, case: Case, found: CutOff) -> BetterLine | None:
        return line_that_returns_number(case, found)

    def _location(self, case: Case, flow: Dataflow, found: CutOff) -> Location | None:
        """Of a new parameter, which is seen only when it is used, the line that makes it of what it computes."""
        made = flow.newest_producer(found.cut.live_inputs[0], found.cut.call) if found.cut.kind == "parameter" else None
        lines = [] if made is None else [location_of_line(line) for line in callers(flow, made)]
        makes = next((line for line in lines if "Parameter(" in (case.source_line(line) or "")), None)
        return makes or _only_line_that_wraps(case, found) or super()._location(case, flow, found)


def _only_line_that_wraps(case: Case, found: CutOff) -> Location | None:
    """The only line of the program that makes a parameter of what a function was given, outside of ``__init__``."""
    if found.cut.kind != "parameter":
        return None
    lines = {
        Location(file, node.lineno)
        for file, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call) and called_name(node) == "Parameter" and _is_of_argument(tree, node)
    }
    return lines.pop() if len(lines) == 1 else None


def _is_of_argument(tree: SourceTree, call: ast.Call) -> bool:
    scope, given = tree.scope(call), call.args[0] if call.args else None
    if not isinstance(scope, ast.FunctionDef) or scope.name == "__init__":
        return False
    return isinstance(given, ast.Name) and given.id in all_parameters_of(scope)
