"""GV953."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.arguments import arguments
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS, READ_ALL
from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read, parameters_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class ArgumentNeverRead(Rule):
    """A function that computes a loss is given a number for each sample, and never reads it.

    What it finds
    -------------
    An argument without a default, which the body of the function, or the ``forward()`` of a loss module, never reads.
    Its only call computes it from data, at each step: one number or flag for each sample, or a mask of their elements,
    which nothing else uses. Functions that are passed on as values, or
    that a class may inherit, have the arguments that others ask for, and are left alone; so are whole numbers, which
    may be the classes of samples.

    Why it matters
    --------------
    Flags of events, weights, and masks of what is valid change a loss. Where the function forgets them, all samples
    count alike, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y, seen = torch.randn(60, 4), torch.randn(60), (torch.rand(60) < 0.7).float()
    def loss_of(output, target, seen):
        errors = (output.squeeze(1) - target) ** 2
        return errors.mean()
    for step in range(4):
        rows = torch.randint(60, (16,))
        loss = loss_of(model(x[rows]), y[rows], seen[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y, seen = torch.randn(60, 4), torch.randn(60), (torch.rand(60) < 0.7).float()
    def loss_of(output, target, seen):
        errors = (output.squeeze(1) - target) ** 2
        return (errors * seen).sum() / seen.sum()
    for step in range(4):
        rows = torch.randint(60, (16,))
        loss = loss_of(model(x[rows]), y[rows], seen[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV953"
    name = "argument_never_read"
    severity = "warning"
    yields_to = ("loaded_and_not_used", "computed_and_not_read")

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case):
            functions = {node.lineno: node for node in tree.nodes if isinstance(node, FUNCTIONS)}
            for key, value, call in arguments(tree):
                function = functions[key.owner]
                if not _may_forget(tree, function, key.name):
                    continue
                steps, last = _steps_with_it(case, file, call, value), _last_of_loss(case, file, function)
                if steps >= _MIN_STEPS and last is not None:
                    yield self._finding(case, function, key.name, last, Location(file, function.lineno))

    def _finding(self, case: Case, function: _Function, name: str, last: int, defined: Location) -> Finding:
        location = location_of_call(case.dataflow, last)
        return self.finding(
            f"{function.name}() is given {name}, numbers of each sample, and never reads it",
            symptom="grad_wrong",
            why="its result is the same whatever that says: all samples count alike",
            fix=f"use {name} in the loss, for example as a weight or a mask: (errors * {name}).sum() / {name}.sum()",
            location=location,
            symptom_location=defined if defined != location else None,
            evidence={"name": name},
        )


_MODULES = frozenset({"nn.Module", "torch.nn.Module", "Module"})
_MIN_STEPS = 2
_MIN_SAMPLES = 4
_MIN_OTHERS = 2


def _may_forget(tree: SourceTree, function: _Function, name: str) -> bool:
    """Whether a function never reads an argument that it need not have, and reads two others."""
    names = parameters_of(function)
    optional = names[len(names) - len(function.args.defaults) :] if function.args.defaults else []
    if name.startswith("_") or name not in names or name in optional or function.decorator_list:
        return False
    nodes = [each for statement in function.body for each in ast.walk(statement)]
    read = {each.id for each in nodes if isinstance(each, ast.Name)}  # Also where it is deleted, or bound anew.
    is_known = name not in read and len(read & set(names)) >= _MIN_OTHERS and not read & READ_ALL
    return is_known and not _trains_in_loop(tree, nodes) and not _is_asked_for(tree, function)


def _trains_in_loop(tree: SourceTree, nodes: list[ast.AST]) -> bool:
    """Whether a function makes many steps: what it is given may be there for a score, or for who draws the batches."""
    backwards = (each for each in nodes if isinstance(each, ast.Call) and called_name(each) == "backward")
    return any(next(tree.loops_around(each), None) is not None for each in backwards)


def _has_twin(tree: SourceTree, function: _Function) -> bool:
    """Whether another class has a function of this name that takes the same, so that one may stand for the other."""
    others = (each for each in tree.nodes if isinstance(each, FUNCTIONS) and each is not function)
    return any(each.name == function.name and parameters_of(each) == parameters_of(function) for each in others)


def _is_asked_for(tree: SourceTree, function: _Function) -> bool:
    """Whether others may say which arguments a function has: it is a value somewhere, or belongs to a class that
    inherits or is inherited, or there are several of its name."""
    around = tree.parent(function)
    if isinstance(around, ast.ClassDef):
        classes = [each for each in tree.nodes if isinstance(each, ast.ClassDef)]
        is_base = any(getattr(base, "id", "") == around.name for each in classes for base in each.bases)
        # Every module writes its own forward(), with the arguments that it likes.
        is_own = function.name == "forward" and all(ast.unparse(base) in _MODULES for base in around.bases)
        if (around.bases and not is_own) or is_base:
            return True
        if is_own and around.bases:
            return any(called_name(each) == "forward" for each in tree.nodes) or _has_twin(tree, function)
    called = {id(each.func) for each in tree.nodes if isinstance(each, ast.Call)}
    kind = ast.Attribute if isinstance(around, ast.ClassDef) else ast.Name
    uses = (each for each in tree.nodes if isinstance(each, kind) and is_read(each))
    named = (each for each in uses if function.name in (getattr(each, "id", ""), getattr(each, "attr", "")))
    is_value = any(id(each) not in called for each in named)
    same = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == function.name]
    return is_value or len(same) > 1


def _steps_with_it(case: Case, file: str, call: ast.Call, value: ast.expr) -> int:
    """At how many steps an argument was a number for each sample, which nothing uses."""
    if isinstance(value, ast.Name):
        return _steps_with_name(case, value.id)
    flow = case.dataflow
    name = "getitem" if isinstance(value, ast.Subscript) else called_name(value)
    lines = range(value.lineno, (value.end_lineno or value.lineno) + 1)
    steps = set[int]()
    for row, each in enumerate(flow.log.calls if name else ()):
        if plain_name(each.function) != name or len(each.outputs) != 1 or flow.users(each.outputs[0].tensor, row):
            continue
        line, made = flow.line_of(row), each.outputs[0].tensor
        if line is not None and line.file == file and line.line in (*lines, call.lineno) and _is_flag(case, made):
            steps.add(flow.step_before(row))
    return len(steps)


def _steps_with_name(case: Case, name: str) -> int:
    """The same for what a variable held: another tensor at each step, or one that no step uses."""
    flow, steps = case.dataflow, set[int]()
    begin = min(flow.rows_of_kind("backward"), default=len(flow.log.calls))
    for number, tensor in enumerate(flow.log.tensors):
        if name not in tensor.names or tensor.first_seen is None or not _is_flag(case, number):
            continue
        if flow.users(number, max(begin, tensor.first_seen)):
            return 0
        steps |= {flow.step_before(tensor.first_seen)} if tensor.first_seen > begin else {*flow.rows_of_kind("step")}
    return len(steps)


def _is_flag(case: Case, tensor: int) -> bool:
    """Whether a tensor has floating-point numbers or booleans, one for each sample, or a mask of the elements of each
    sample, which are data."""
    flow, known = case.dataflow, case.dataflow.log.tensors[tensor]
    shape, dtype, values = shape_of(flow, tensor), known.facts.dtype, flow.values(tensor, len(flow.log.calls))
    is_column = len(shape) == 1 or (len(shape) > 1 and shape[1:] == (1,))
    is_number = dtype == "bool" or "float" in dtype
    is_varied = values is not None and values.minimum != values.maximum
    is_data = known.role == "tensor" and not known.requires_grad
    is_mask = len(shape) > 1 and values is not None and (values.minimum, values.maximum) == (0, 1) and values.zeros > 0
    return (is_column or is_mask) and shape[0] >= _MIN_SAMPLES and is_number and is_varied and is_data


def _last_of_loss(case: Case, file: str, function: _Function) -> int | None:
    """The last call of a function that a backward went through."""
    flow = case.dataflow
    for backward, _ in flow.roots():
        for row in reversed(range(flow.step_before(backward) + 1, backward)):
            line, call = flow.line_of(row), flow.log.calls[row]
            is_inside = line is not None and line.file == file and line.function.rpartition(".")[2] == function.name
            if is_inside and any(use.requires_grad for use in call.outputs):
                return row
    return None
