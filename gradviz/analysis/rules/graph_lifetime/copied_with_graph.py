"""GV978."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call
from gradviz.analysis.dataflow.refused_calls import calls_that_ended
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines.lines_that_keep import statement_that_keeps
from gradviz.analysis.rules.bases.sources.own_files import own_files, own_tree
from gradviz.analysis.rules.bases.storing_lines import line_that_stores
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name


class CopiedWithGraph(Rule):
    """A tensor with its graph is kept in an object, so that ``copy.deepcopy()`` of the object raises.

    What it finds
    -------------
    A ``copy.deepcopy()`` that ended the program, as something in what it copies was computed with a gradient: a result
    that forward has kept in an attribute, or weights that ``weight_norm()``, ``spectral_norm()`` or pruning computes
    anew in each forward. It names what holds the tensor, and the line that stored it. Errors that the program catches
    are left out.

    Why it matters
    --------------
    Torch copies tensors that the program made itself, and refuses results, as a copy of a result would have no place in
    the graph. The traceback ends inside of ``copy`` and names neither the tensor nor its holder.

    Example
    -------
    import copy

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.weights = None

        def forward(self, x):
            weights = self.layer(x).softmax(-1)
            self.weights = weights
            return weights @ x.T

    model = Encoder()
    model(torch.randn(3, 4)).sum().backward()
    teacher = copy.deepcopy(model)

    Instead
    -------
    import copy

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.weights = None

        def forward(self, x):
            weights = self.layer(x).softmax(-1)
            self.weights = weights.detach()
            return weights @ x.T

    model = Encoder()
    model(torch.randn(3, 4)).sum().backward()
    teacher = copy.deepcopy(model)
    """

    code = "GV978"
    name = "copied_with_graph"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for row in calls_that_ended(case.capture, flow)[-1:]:
            call = flow.log.calls[row]
            if call.function == _DEEPCOPY and call.inputs and call.inputs[0].has_grad_fn:
                yield self._finding(case, row, call.inputs[0].tensor)

    def _finding(self, case: Case, row: int, tensor: int) -> Finding:
        flow = case.dataflow
        known, maker, copied = flow.log.tensors[tensor], flow.newest_producer(tensor, row), location_of_call(flow, row)
        made = None if maker is None else location_of_call(flow, maker)
        holder = known.holder.path if known.holder is not None else ""
        alone = _copied_alone(case, copied, {*known.names, holder})
        anew = _computed_anew(case, holder)
        if alone is not None:
            place, fix = copied, f"copy the values only: {alone}.detach().clone()"
        elif anew is not None:
            place, fix = _line_that_applies(case, anew) or made, _INSTEAD[anew]
        else:
            place, without_graph = _line_that_keeps(case, maker, holder) or (made, "")
            fix = "keep it without its graph: " + (without_graph or "store its detach()")
        computed = "was computed" if made is None or made == place else f"line {made.line} computed"
        others = [each for each in (copied, made) if each is not None and each != place]
        return self.finding(
            f"deepcopy(){at_line(copied)} raised and ended the program: {alone or holder or 'what it copies'} "
            f"{'is' if alone is not None else 'holds'} a tensor that {computed} with a graph",
            symptom="raises",
            why="torch copies tensors that the program made itself; a result belongs to its graph, which is not copied",
            fix=fix,
            location=place,
            symptom_location=others[0] if others else None,
            tensors=(alone or holder,) if alone or holder else (),
        )


_DEEPCOPY = "torch.Tensor.__deepcopy__"
_INSTEAD = {
    "weight_norm": "use torch.nn.utils.parametrizations.weight_norm(), whose modules can be copied",
    "spectral_norm": "use torch.nn.utils.parametrizations.spectral_norm(), whose modules can be copied",
    "prune": "make it permanent by torch.nn.utils.prune.remove() before, or load state_dict() into a new, pruned model",
}
"""What computes weights of others before each forward, and what to do instead."""


def _computed_anew(case: Case, holder: str) -> str | None:
    """What of torch computes a weight before each forward, told by what it has registered beside: ``weight_orig``."""
    own = holder.rpartition(".")[2]
    beside = {
        name.rpartition(".")[2].removeprefix(own)
        for tensor in case.dataflow.log.tensors
        for name in tensor.names
        if own and name.rpartition(".")[2].startswith(f"{own}_")
    }
    return next((name for name, parts in _BESIDE.items() if parts <= beside), None)


_BESIDE = {"weight_norm": {"_g", "_v"}, "prune": {"_orig", "_mask"}, "spectral_norm": {"_orig", "_u"}}


def _line_that_applies(case: Case, name: str) -> Location | None:
    """The first line of the program that applies it."""
    lines = (
        Location(file, node.lineno)
        for file, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call) and (called_name(node) == name or f"{name}." in ast.unparse(node.func))
    )
    return next(lines, None)


def _copied_alone(case: Case, copied: Location | None, names: set[str]) -> str | None:
    """The tensor, as the line that copies it names it; None if it is inside of what is copied."""
    tree = None if copied is None else own_tree(case, copied.file)
    statement = None if tree is None or copied is None else tree.statement_at(copied.line)
    for node in ast.walk(statement) if statement is not None else ():
        if called_name(node) == "deepcopy" and isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.args[0])
            if name in names:
                return name
    return None


def _line_that_keeps(case: Case, maker: int | None, holder: str) -> tuple[Location, str] | None:
    """The line that stores what a call made where it is held, with the statement without its graph, if it is known."""
    flow, attribute = case.dataflow, _attribute_of(holder)
    stored = None if maker is None else line_that_stores(case, maker, holder)
    if stored is not None:
        return Location(stored.file, stored.line), ""
    for line in callers(flow, maker) if maker is not None else ():
        tree = own_tree(case, line.file)
        kept = None if tree is None else statement_that_keeps(tree, line.line, {attribute} if attribute else _all(tree))
        if kept is not None:
            return Location(line.file, kept.line), kept.without_graph
    lines = {
        Location(file, target.lineno)
        for file, tree in own_files(case)
        for target, value in tree.assignments
        if attribute and _attribute_set(target) == attribute and not isinstance(value, _EMPTY)
    }
    return (min(lines), "") if len(lines) == 1 else None


_EMPTY = (ast.Constant, ast.List, ast.Dict)


def _attribute_set(target: ast.expr) -> str:
    """The attribute that an assignment sets, or in whose list or dict it sets an element."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.attr if isinstance(target, ast.Attribute) else ""


def _attribute_of(path: str) -> str:
    """The attribute with which a path ends: ``maps`` of ``model.maps[0]``; "" if it has none."""
    name = path.partition("[")[0] if "." not in path.rpartition("[")[2] else path
    return name.rpartition(".")[2] if "." in name else ""


def _all(tree: SourceTree) -> set[str]:
    """The attributes that a file sets."""
    return {last_name(node) for node in tree.nodes if isinstance(node, ast.Attribute)}
