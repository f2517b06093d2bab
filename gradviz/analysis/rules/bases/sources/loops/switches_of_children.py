"""Loops over the children of a module that switch some: ``for m in model.children(): m.enabled = False``.

>>> tree = SourceTree(dict(enumerate('''class Net:
...     def off(self):
...         layers = [m for m in self.children() if isinstance(m, Adapter)]
...         for m in layers:
...             m.enabled = False
...     def freeze(self):
...         for name, m in self.named_children():
...             if not isinstance(m, (BatchNorm1d, BatchNorm2d)):
...                 continue
...             m.eval()
... '''.splitlines(), start=1)))
>>> [(each.line, each.name, each.value, sorted(each.classes)) for each in switches_of_children(tree)]
[(3, 'enabled', 'False', ['Adapter']), (7, 'eval', '', ['BatchNorm1d', 'BatchNorm2d'])]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name, names_in

MODES = frozenset({"eval", "train", "requires_grad_"})
"""Methods of a module that also switch all modules in it."""
_OF_CHILDREN = frozenset({"children", "named_children"})
_WRAPS = frozenset({"list", "tuple", "enumerate", "reversed", "iter"})
_ASKS = frozenset({
    "isinstance", "hasattr", "getattr", "setattr", "type", "print", "len", "append", "id", "str", "repr", "super",
})  # fmt: skip
_LOOKS = frozenset({"modules", "named_modules", "children", "named_children", "apply"})
_MAX_DEEP = 6
_ATTRIBUTE_AND_VALUE = 3


class Switch(Struct, frozen=True, eq=False):
    """What a loop does with each child of a class."""

    tree: SourceTree
    call: ast.Call
    """``model.children()``."""
    model: ast.expr
    classes: frozenset[str]
    """Of which the loop asks that a child is one; empty if it asks for an attribute, or for nothing."""
    attribute: str
    """Of which it asks that a child has it."""
    name: str
    """The attribute that it sets, or the method that it calls."""
    value: str
    """The source of what it sets, or of the arguments."""
    is_call: bool

    @property
    def line(self) -> int:
        return self.call.lineno

    @property
    def words(self) -> str:
        """``enabled = False``, ``eval()``."""
        return f"{self.name}({self.value})" if self.is_call else f"{self.name} = {self.value}"


class _Chosen(Struct, frozen=True, eq=False):
    """The children that something goes through, and the conditions on them, each with the name of the child in it."""

    call: ast.Call
    conditions: tuple[tuple[ast.expr, str], ...]


def switches_of_children(tree: SourceTree) -> Iterator[Switch]:
    """All of a file, in its order."""
    for node in tree.nodes:
        loop = _loop(node)
        child = "" if loop is None else _child(loop.target)
        chosen = _chosen(tree, loop.iter) if loop is not None and child else None
        if loop is None or chosen is None or _gives_away(tree, node, loop, child):
            continue
        own = [(each, child) for each in _conditions(loop, child)]
        asked = _asked([*chosen.conditions, *own])
        if asked is None or not isinstance(chosen.call.func, ast.Attribute):
            continue
        for name, value, is_call in _switched(loop, child):
            yield Switch(tree, chosen.call, chosen.call.func.value, asked[0], asked[1], name, value, is_call)


def _loop(node: ast.AST) -> ast.For | None:
    """A loop; also that of a statement such as ``[m.eval() for m in model.children() if isinstance(m, Dropout)]``."""
    if isinstance(node, ast.For):
        return node
    made = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(made, (ast.ListComp, ast.SetComp)) or len(made.generators) != 1:
        return None
    part, body = made.generators[0], ast.Expr(made.elt)
    tests = part.ifs if len(part.ifs) < 2 else [ast.BoolOp(ast.And(), part.ifs)]
    return ast.For(part.target, part.iter, [ast.If(tests[0], [body], []) if tests else body], [])


def _child(target: ast.expr) -> str:
    """The name of the module in ``m``, in ``name, m`` and in ``i, (name, m)``."""
    while isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[-1]
    return target.id if isinstance(target, ast.Name) else ""


def _chosen(tree: SourceTree, value: ast.expr) -> _Chosen | None:
    """What goes through all children of a module, or those of some class."""
    conditions = list[tuple[ast.expr, str]]()
    for _ in range(_MAX_DEEP):
        if isinstance(value, ast.Call) and called_name(value) in _OF_CHILDREN:
            return _Chosen(value, tuple(conditions)) if not value.args else None
        if isinstance(value, ast.Call) and called_name(value) in _WRAPS and len(value.args) == 1:
            value = value.args[0]
        elif isinstance(value, ast.Call) and called_name(value) == "filter" and len(value.args) > 1:
            test, value = value.args[0], value.args[1]
            if not isinstance(test, ast.Lambda) or len(test.args.args) != 1:
                return None
            conditions.append((test.body, test.args.args[0].arg))
        elif isinstance(value, (ast.ListComp, ast.GeneratorExp, ast.SetComp)) and len(value.generators) == 1:
            part = value.generators[0]
            name = _child(part.target)
            if not isinstance(value.elt, ast.Name) or value.elt.id != name:
                return None
            conditions += [(each, name) for each in part.ifs]
            value = part.iter
        else:
            key = tree.key_of(value)
            held = tree.values_of(key)
            if key is None or len(held) != 1 or tree.times_bound(key) != 1:
                return None
            value = held[0]
    return None


def _gives_away(tree: SourceTree, place: ast.AST, loop: ast.For, child: str) -> bool:
    """Whether the body gives a child to a function, calls it, or goes through what is in it: it reaches further."""
    around = next((each for each in tree.around(place) if isinstance(each, FUNCTIONS)), None)
    for node in (each for part in loop.body for each in ast.walk(part)):
        if not isinstance(node, ast.Call):
            continue
        given = [*node.args, *(each.value for each in node.keywords)]
        is_given = any(isinstance(each, ast.Name) and each.id == child for each in given)
        if (is_given and called_name(node) not in _ASKS) or last_name(node.func) == child:
            return True
        of_child = isinstance(node.func, ast.Attribute) and child in names_in(node.func.value)
        if of_child and called_name(node) in _LOOKS:
            return True
        if around is not None and called_name(node) == around.name and around.name not in MODES:
            return True
    return False


def _conditions(loop: ast.For, child: str) -> Iterator[ast.expr]:
    """The tests on a child in the body of a loop: of a branch for some, and of what leaves out the others."""
    for node in (each for part in loop.body for each in ast.walk(part)):
        if not isinstance(node, ast.If):
            continue
        leaves_out = isinstance(node.body[0], ast.Continue) and isinstance(node.test, ast.UnaryOp)
        yield node.test.operand if leaves_out and isinstance(node.test, ast.UnaryOp) else node.test


def _asked(conditions: list[tuple[ast.expr, str]]) -> tuple[frozenset[str], str] | None:
    """The classes, or the attribute, that conditions ask for; None where they ask for something else, too."""
    classes, attributes = set[str](), set[str]()
    waiting = list(conditions)
    while waiting:
        test, child = waiting.pop()
        if isinstance(test, ast.BoolOp):
            waiting += [(each, child) for each in test.values]
            continue
        of_child = isinstance(test, ast.Call) and len(test.args) > 1 and last_name(test.args[0]) == child
        if isinstance(test, ast.Call) and of_child and called_name(test) == "isinstance":
            named = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
            classes |= set(map(last_name, named))
        elif isinstance(test, ast.Call) and of_child and called_name(test) == "hasattr":
            attributes.add(str(getattr(test.args[1], "value", "")))
        elif isinstance(test, ast.Compare) and called_name(test.left) == "type" and child in names_in(test.left):
            classes |= set(map(last_name, test.comparators))
        elif isinstance(test, ast.Compare) and ast.unparse(test.left) == f"{child}.__class__.__name__":
            classes |= {str(getattr(each, "value", "")) for each in test.comparators}
        else:
            return None
    if "" in classes or len(attributes) > 1:
        return None
    return frozenset(classes), next(iter(attributes), "")


def _switched(loop: ast.For, child: str) -> Iterator[tuple[str, str, bool]]:
    """What the statements of a loop set on a child, or call of it: the name, the value, and whether it is a call."""
    bound = names_in(loop.target)
    for node in (each for part in loop.body for each in ast.walk(part)):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            target = node.targets[0]
            if last_name(target.value) == child and isinstance(target.value, ast.Name) and _is_told(node.value, bound):
                yield target.attr, ast.unparse(node.value), False
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _called(node.value, child, bound)
        elif isinstance(node, ast.For):
            yield from _of_parameters(node, child)


def _called(call: ast.Call, child: str, bound: set[str]) -> Iterator[tuple[str, str, bool]]:
    if called_name(call) == "setattr" and len(call.args) == _ATTRIBUTE_AND_VALUE and last_name(call.args[0]) == child:
        if isinstance(call.args[1], ast.Constant) and _is_told(call.args[2], bound):
            yield str(call.args[1].value), ast.unparse(call.args[2]), False
        return
    given = [*call.args, *(each.value for each in call.keywords)]
    is_of_child = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
    is_of_child = is_of_child and last_name(getattr(call.func, "value", call)) == child
    if is_of_child and all(_is_told(each, bound) for each in given):
        yield called_name(call), ", ".join(map(ast.unparse, given)), True


def _of_parameters(loop: ast.For, child: str) -> Iterator[tuple[str, str, bool]]:
    """``for p in m.parameters(): p.requires_grad = False`` is ``m.requires_grad_(False)``."""
    if called_name(loop.iter) != "parameters" or child not in names_in(loop.iter) or len(loop.body) != 1:
        return
    for node in ast.walk(loop.body[0]):
        if isinstance(node, ast.Assign) and last_name(node.targets[0]) == "requires_grad":
            yield "requires_grad_", ast.unparse(node.value), True
        elif called_name(node) == "requires_grad_" and isinstance(node, ast.Call):
            yield "requires_grad_", ", ".join(map(ast.unparse, node.args)), True


def _is_told(value: ast.expr, bound: set[str]) -> bool:
    """Whether a value is the same for all children: it is not made anew, nor one of what the loop goes through."""
    return bound.isdisjoint(names_in(value)) and not any(isinstance(each, ast.Call) for each in ast.walk(value))
