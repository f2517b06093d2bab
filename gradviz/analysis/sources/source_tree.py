"""The source of one file as a tree, with what surrounds a node and what its names mean.

>>> tree = SourceTree({1: "def f(xs):", 2: "    for x in xs:", 3: "        g(x, ys)"})
>>> read = next(each for each in tree.nodes if isinstance(each, ast.Name) and each.id == "x" and is_read(each))
>>> tree.key_of(read), [type(each).__name__ for each in tree.around(read)]
(Key(owner=1, name='x'), ['Call', 'Expr', 'For', 'FunctionDef', 'Module'])
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS, parsed

Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*FUNCTIONS, ast.Lambda, ast.Module)


class Key(Struct, frozen=True):
    """A variable: a name in a function or module, or an attribute of ``self`` in a class."""

    owner: int
    """The line of the function or class; 0 for the module."""
    name: str
    """``params``; ``self.params`` for an attribute."""


class SourceTree:
    """The nodes of one file."""

    def __init__(self, lines: Mapping[int, str]) -> None:
        first = min(lines)
        tree = parsed([lines.get(number, "") for number in range(first, max(lines) + 1)])
        module, trimmed = tree or (ast.Module([], []), 0)
        lines_before = first + trimmed - 1
        self.module = ast.increment_lineno(module, lines_before) if lines_before else module
        self.lines = lines
        self.nodes: list[ast.AST] = [self.module]
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:  # which grows meanwhile, in the order of ast.walk()
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
                self.nodes.append(child)
        self._shared = {
            (self.scope(node), name)
            for node in self.nodes
            if isinstance(node, (ast.Global, ast.Nonlocal))
            for name in node.names
        }
        self._bound = Counter(key for node in self.nodes for key in self._bound_by(node))
        self.foreign = {
            node.attr
            for node in self.nodes
            if isinstance(node, ast.Attribute) and not is_read(node) and not _is_of_self(node)
        }
        """Attributes that are set on something else than ``self``."""

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def statement_around(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that a node is a part of."""
        return next((each for each in self.around(node) if isinstance(each, ast.stmt)), None)

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class that a node is a part of."""
        return next((each for each in self.around(node) if isinstance(each, ast.ClassDef)), None)

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the block that a statement is one of."""
        parent = self._parents.get(statement)
        blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
        return next((block for block in blocks if isinstance(block, list) and statement in block), [])

    def scope(self, node: ast.AST) -> ast.AST:
        """The innermost function around a node; else the module."""
        return next((each for each in self.around(node) if isinstance(each, _SCOPES)), self.module)

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement on a line."""
        return max(self.statements_at(line), key=lambda each: each.lineno, default=None)

    def statements_at(self, line: int) -> list[ast.stmt]:
        """The statements that a line is in, outer ones first."""
        return [each for each in self._statements if each.lineno <= line <= last_line(each)]

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        return [node for node in self.nodes if isinstance(node, ast.stmt)]

    def loops_around(self, node: ast.AST) -> Iterator[Loop]:
        """The loops of the same function that run a node many times, innermost first."""
        below = node
        for each in self.around(node):
            if isinstance(each, _SCOPES):
                return
            if isinstance(each, LOOPS) and (isinstance(each, ast.While) or below is not each.iter):
                yield each
            below = each

    def repeated_around(self, line: int) -> list[ast.AST]:
        """What runs a line, or an expression on it, many times: comprehensions in its statement, and the innermost loop
        of the same function."""
        statement = self.statement_at(line)
        if statement is None or isinstance(statement, LOOPS):
            return [] if statement is None else [statement]
        comprehensions = (each for each in ast.walk(statement) if isinstance(each, COMPREHENSIONS))
        return [*comprehensions, *islice(self.loops_around(statement), 1)]

    def key_of(self, node: ast.AST) -> Key | None:
        """The variable that a name or an attribute of ``self`` means; None for a name that nothing binds."""
        if isinstance(node, ast.Attribute) and _is_of_self(node):
            owner = self.class_around(node)
            return None if owner is None else Key(owner.lineno, f"self.{node.attr}")
        if not isinstance(node, ast.Name):
            return None
        scopes = (each for each in self.around(node) if isinstance(each, _SCOPES))
        keys = (Key(first_line(scope), node.id) for scope in scopes)
        return next((key for key in keys if key in self._bound), None)

    def values_of(self, key: Key | None) -> list[ast.expr]:
        """What assignments give to a variable, in the order of the source; nothing where there is no variable."""
        return list(self._values.get(key, ())) if key is not None else []

    @cached_property
    def _values(self) -> dict[Key, list[ast.expr]]:
        found = defaultdict[Key, list[ast.expr]](list)
        for target, value in self.assignments:
            key = self.key_of(target)
            if key is not None:
                found[key].append(value)
        return found

    def times_bound(self, key: Key) -> int:
        """How many places of the source give a variable its value."""
        return self._bound[key]

    def number(self, node: ast.expr) -> int | None:
        """A whole number, or what a variable holds that is given one number and nothing else."""
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        key = self.key_of(node)
        return self._numbers.get(key) if key is not None and self._bound[key] == 1 else None

    @cached_property
    def _numbers(self) -> dict[Key, int]:
        return {
            key: value.value
            for key, values in self._values.items()
            for value in values
            if isinstance(value, ast.Constant) and type(value.value) is int
        }

    @cached_property
    def assignments(self) -> list[tuple[ast.expr, ast.expr]]:
        """Each target with its value, also of ``a, b = x, y``."""
        found = list[tuple[ast.expr, ast.expr]]()
        for node in self.nodes:
            if isinstance(node, ast.AnnAssign) and node.value is not None:
                found.append((node.target, node.value))
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                found += zip(target.elts, value.elts, strict=False)
            else:
                found.append((target, value))
        return found

    def _bound_by(self, node: ast.AST) -> Iterator[Key]:
        if isinstance(node, ast.Name) and not is_read(node):
            scope = self.scope(node)
            yield Key(0 if (scope, node.id) in self._shared else first_line(scope), node.id)
        elif isinstance(node, ast.arg):
            yield Key(first_line(self.scope(node)), node.arg)
        elif isinstance(node, ast.Attribute) and not is_read(node):
            key = self.key_of(node)
            if key is not None:
                yield key


def tree_of(lines: Mapping[int, str]) -> SourceTree:
    """The tree of a file, made once for all rules."""
    for known, tree in _asked_last:  # hundreds of rules ask for the same few objects, and no line needs to be read
        if known is lines:
            return tree
    tree = _made_once(tuple(lines.items()))
    _asked_last.append((lines, tree))
    return tree


_asked_last: deque[tuple[Mapping[int, str], SourceTree]] = deque(maxlen=4)


@lru_cache(maxsize=16)
def _made_once(lines: tuple[tuple[int, str], ...]) -> SourceTree:
    return SourceTree(dict(lines))


def set_in_class(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """What a class body assigns, each with the name: the defaults of a dataclass, and attributes of the class."""
    for statement in owner.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                yield last_name(target), statement.value


_KEEPS_RESULTS = frozenset({"cached_property", "lru_cache", "cache"})


def decorator_that_keeps_results(function: ast.AST) -> ast.expr | None:
    """``@cached_property`` or ``@lru_cache(...)`` of a function, if it has one."""
    decorators: list[ast.expr] = getattr(function, "decorator_list", [])
    return next((each for each in decorators if (called_name(each) or last_name(each)) in _KEEPS_RESULTS), None)


def is_read(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def names_in(node: ast.AST) -> set[str]:
    """The variables that an expression or a statement names."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def called_name(node: ast.AST) -> str:
    """The last part of what a call calls: ``parameters`` of ``model.parameters()``; "" for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return last_name(node.func)


def last_name(node: ast.AST) -> str:
    """The last part of a name: ``weight`` of ``self.layer.weight``; "" for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of what a function is given by place, without ``self``."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] == ["self"] else names


def given_to(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """What a call gives to a function by place and by keyword, each with the name of the parameter."""
    yield from zip(parameters_of(function), call.args, strict=False)
    yield from ((each.arg or "", each.value) for each in call.keywords)


def defaults_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[tuple[str, ast.expr]]:
    """The default of each parameter of a function that has one, with the name."""
    given = function.args
    places = [*given.posonlyargs, *given.args]
    yield from zip((each.arg for each in places[len(places) - len(given.defaults) :]), given.defaults, strict=True)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    yield from ((each.arg, value) for each, value in named if value is not None)


def all_parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The names of all that a function is given, also by keyword, and as ``*args`` and ``**kwargs``."""
    given = function.args
    rest = (each for each in (given.vararg, given.kwarg) if each is not None)
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)}


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def first_line(scope: ast.AST) -> int:
    """The line with which a part of a file begins; 0 for the whole file."""
    return 0 if isinstance(scope, ast.Module) else getattr(scope, "lineno", 0)


def last_line(node: ast.expr | ast.stmt) -> int:
    """The line with which a statement or an expression ends."""
    return node.end_lineno or node.lineno
