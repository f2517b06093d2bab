"""Modules that are made once, when Python defines a class or a function, and that every object has which takes them.

A default argument is evaluated when the function is defined, and so is what a class body assigns, as the default of a
field of a dataclass is. What a lambda in such a place makes is made anew at each call.

>>> tree = SourceTree({1: "class Block(Module):", 2: "    def __init__(self, act=PReLU(), make=lambda: PReLU()):",
...     3: "        self.act, self.other = act, make()"})
>>> [(each.name, each.line, each.around) for each in defaults_in("block.py", tree)]
[('act', 2, 'Block')]
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, function_of, short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.sources.one_object_repeated import is_said_to_be_shared
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    SourceTree,
    called_name,
    defaults_of,
    last_name,
    set_in_class,
)
from gradviz.graph.model import CallSite
from gradviz.graph.traversal import scopes_around

_MIN_OWNERS = 2
_MOST_USES = 200
Owner = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Default(Struct, frozen=True, eq=False):
    """An expression that is evaluated when a class or a function is defined."""

    file: str
    tree: SourceTree
    value: ast.expr
    owner: Owner
    name: str
    """Of the attribute or the argument."""

    @property
    def line(self) -> int:
        return self.value.lineno

    @property
    def around(self) -> str:
        """The class or function whose definition evaluates it, as Python names the frame."""
        if isinstance(self.owner, ast.ClassDef):
            return self.owner.name
        named = (each for each in self.tree.around(self.owner) if isinstance(each, (*FUNCTIONS, ast.ClassDef)))
        return next((each.name for each in named), "<module>")

    @property
    def function(self) -> str:
        """The function that has the default, with its class: ``Block.__init__``."""
        inside = self.around if isinstance(self.tree.parent(self.owner), ast.ClassDef) else ""
        return ".".join(filter(None, (inside, self.owner.name)))

    @property
    def text(self) -> str:
        """The source of what it makes: of ``field(default=PReLU())``, that of ``PReLU()``."""
        made = self.value
        if isinstance(made, ast.Call) and called_name(made) == "field":
            made = next((each.value for each in made.keywords if each.arg == "default"), made)
        return ast.unparse(made)

    def is_made_by(self, line: CallSite) -> bool:
        """Whether a line of the program ran as a part of it, not in a function that is called later."""
        is_there = self.file == line.file and self.line <= line.line <= (self.value.end_lineno or self.line)
        return is_there and function_of(line).rpartition(".")[2] == self.around


class ModuleOfDefault(Struct, frozen=True):
    """A module with parameters that a default made, and that several objects took."""

    default: Default
    row: int
    """The call that made it."""
    owners: tuple[str, ...]
    """Paths of the modules that have it, or use it."""
    parameters: tuple[int, ...]
    is_registered: bool
    is_meant: bool
    """Whether the program says that it is shared, or takes it from the class by name."""


def modules_of_defaults(case: Case) -> Iterator[ModuleOfDefault]:
    """Those whose parameters get gradients, and that several objects took from their default."""
    defaults = [each for file, tree in own_files(case) for each in defaults_in(file, tree)]
    made = defaultdict[tuple[Default, int], list[int]](list)
    for number in sorted(case.histories.reached) if defaults else ():
        found = _made_by_default(case, number, defaults)
        if found is not None:
            made[found].append(number)
    for (default, row), parameters in made.items():
        owners, is_registered = owners_of(case, row, parameters)
        if _took(case, default, owners):
            is_meant = is_said_to_be_shared(default.tree, default.value, [default.name]) or _is_of_class(case, default)
            yield ModuleOfDefault(default, row, tuple(owners), tuple(parameters), is_registered, is_meant)


def defaults_in(file: str, tree: SourceTree) -> Iterator[Default]:
    """The defaults of a file that call something."""
    for node in tree.nodes:
        if isinstance(node, FUNCTIONS):
            pairs = defaults_of(node)
        elif isinstance(node, ast.ClassDef):
            pairs = set_in_class(node)
        else:
            continue
        yield from (Default(file, tree, value, node, name) for name, value in pairs if _calls_at_once(value))


def _calls_at_once(value: ast.expr) -> bool:
    """Whether an expression calls something itself, not only in a function that it makes."""
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and called_name(node) != "field":
            return True
        if not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return False


def _made_by_default(case: Case, number: int, defaults: list[Default]) -> tuple[Default, int] | None:
    """The default that made a parameter, and the call that made the outermost module of it there."""
    flow = case.dataflow
    made = case.histories.made_by(number)
    lines = [] if made is None else list(callers(flow, made))
    default = next((each for each in defaults if any(map(each.is_made_by, lines))), None)
    if made is None or default is None:
        return None
    paths = [name for each in case.histories.tensor(number).names for name in paths_above(each)]
    rows = {row for path in paths if (row := flow.row_of_module(path)) is not None}
    of_default = [row for row in rows if any(map(default.is_made_by, callers(flow, row)))]
    before = [row for row in flow.rows_of_kind("make_module") if row < made]
    # The shortest path is that of the outermost module.
    row = min(of_default, key=lambda each: len(flow.log.calls[each].name or ""), default=before[-1] if before else None)
    return None if row is None else (default, row)


def paths_above(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def owners_of(case: Case, row: int, parameters: list[int]) -> tuple[list[str], bool]:
    """The modules that have a module, or called it, and whether any has it."""
    flow, path = case.dataflow, case.dataflow.log.calls[row].name
    found = dict.fromkeys(_registered_in(case, path, parameters))
    is_registered = bool(found)
    scopes, kind = flow.log.scopes, short_name(flow.log.calls[row].function).rpartition(".")[2]
    for use in case.histories.forward_uses(parameters[0])[:_MOST_USES]:
        for scope in scopes_around(scopes, flow.log.calls[use].scope):
            parent = scopes[scope].parent
            is_it = scopes[scope].path == path if path else scopes[scope].class_name == kind
            if is_it and parent is not None and scopes[parent].kind == "module":
                found[scopes[parent].path] = None
                break
    return list(found), is_registered


def _registered_in(case: Case, path: str | None, parameters: list[int]) -> Iterator[str]:
    """The paths of the modules that have a module, by the names of its first parameter."""
    names = case.histories.tensor(parameters[0]).names
    below = next((name.removeprefix(path) for name in names if path and name.startswith(f"{path}.")), None)
    for name in names if below else ():
        if name.endswith(below or "") and "." in name.removesuffix(below or ""):
            yield name.removesuffix(below or "").rpartition(".")[0]


def _took(case: Case, default: Default, owners: list[str]) -> bool:
    """Whether several objects took their module from the default: not one object that gave it to several others."""
    rows = [row for each in owners if (row := case.dataflow.row_of_module(each)) is not None]
    if len(set(rows)) < _MIN_OWNERS:
        return False
    if not isinstance(default.owner, ast.ClassDef):
        return calls_that_took(case.dataflow, default, rows) >= _MIN_OWNERS
    kinds = _and_subclasses(default.tree, default.owner.name)
    own = [row for row in rows if _class_made(case.dataflow, row) in kinds]
    lines = Counter((case.dataflow.line_of(row), _class_made(case.dataflow, row)) for row in rows)
    alike = Counter[tuple[str, int, str]]()
    for (line, kind), count in lines.items():
        if line is not None:
            alike[line.file, line.line, kind] += count
    trees = dict(own_files(case))
    most = max(
        (count // _written(trees.get(file), line, kind) for (file, line, kind), count in alike.items()), default=0
    )
    return max(len(own), most) >= _MIN_OWNERS or _is_made_often(case, default.owner.name)


def calls_that_took(flow: Dataflow, default: Default, rows: list[int]) -> int:
    """How many calls of a function with a default made modules that have what the default made."""
    function = default.owner
    inits = default.tree.class_around(function)
    is_init = inits is not None and function.name == "__init__"
    kinds = _and_subclasses(default.tree, inits.name) if inits is not None and is_init else set[str]()
    own, inside = 0, defaultdict[int | None, Counter[tuple[int, str]]](Counter)
    for row in rows:
        kind = _class_made(flow, row)
        if kind in kinds:
            own += 1
            continue
        line = next((each for each in callers(flow, row) if _is_in(default, each)), None)
        if line is not None:
            inside[line.caller][line.line, kind] += 1
    return own + sum(
        max(_times_run(default.tree, line, kind, count) for (line, kind), count in counts.items())
        for counts in inside.values()
    )


def _is_in(default: Default, line: CallSite) -> bool:
    function = default.owner
    is_there = default.file == line.file and function.lineno <= line.line <= (function.end_lineno or 0)
    return is_there and function_of(line).rpartition(".")[2] == function.name


def _times_run(tree: SourceTree, line: int, kind: str, count: int) -> int:
    """How often a function came to a line that made some modules of a class."""
    is_repeated = tree.statement_at(line) is None or bool(tree.repeated_around(line))
    return 1 if is_repeated else max(1, count // _written(tree, line, kind))


def _written(tree: SourceTree | None, line: int, kind: str) -> int:
    """How often a statement makes a module of a class."""
    statement = None if tree is None else tree.statement_at(line)
    return 1 if statement is None else max(1, sum(called_name(each) == kind for each in ast.walk(statement)))


def _class_made(flow: Dataflow, row: int) -> str:
    return flow.log.calls[row].function.rpartition(".")[2]


def _and_subclasses(tree: SourceTree, name: str) -> set[str]:
    """A class and those of the same file that inherit from it."""
    classes = [node for node in tree.nodes if isinstance(node, ast.ClassDef)]
    found = {name}
    for _ in classes:
        more = {each.name for each in classes if not found.isdisjoint(map(last_name, each.bases))}
        if more <= found:
            break
        found |= more
    return found


def _is_made_often(case: Case, name: str) -> bool:
    """Whether the program makes several objects of a class."""
    made = [
        (tree, node)
        for _, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call) and called_name(node) == name
    ]
    return len(made) > 1 or any(
        any(tree.loops_around(node)) or any(isinstance(each, COMPREHENSIONS) for each in tree.around(node))
        for tree, node in made
    )


def _is_of_class(case: Case, default: Default) -> bool:
    """Whether the program takes an attribute from the class itself: ``Block.table``, ``type(self).table``."""
    if not isinstance(default.owner, ast.ClassDef):
        return False
    return any(
        isinstance(node, ast.Attribute) and node.attr == default.name and _is_class(node.value, default.owner.name)
        for _, tree in own_files(case)
        for node in tree.nodes
    )


def _is_class(node: ast.expr, name: str) -> bool:
    return last_name(node) in {name, "cls", "__class__"} or called_name(node) == "type"
