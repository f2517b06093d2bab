"""Lines that keep the best of some numbers, and lower a learning rate where no number was better for a while.

>>> tree = SourceTree(dict(enumerate('''for epoch in range(9):
...     accuracy = evaluate(model)
...     if accuracy < best:
...         best, waited = accuracy, 0
...     else:
...         waited += 1
...         if waited > 2:
...             for group in optimizer.param_groups:
...                 group["lr"] *= 0.5
... '''.splitlines(), start=1)))
>>> [(each.line, each.name, each.better) for each in plateaus_by_hand(tree)]
[(3, 'accuracy', 'min')]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, is_read, last_line, last_name

Better = Literal["max", "min"]
_TURNED: dict[Better, Better] = {"max": "min", "min": "max"}


class Plateau(Struct, frozen=True):
    """One comparison with the best number so far."""

    line: int
    name: str
    """What is compared, as source."""
    better: Better
    """What the comparison takes for better."""
    given: tuple[str, ...]
    """What is compared under the names that it has where it comes from: those of the arguments of calls."""
    made: tuple[int, ...]
    """The lines that assign it."""


class NamedBest(Struct, frozen=True):
    """``best, best_model = score, model``: another name for what is trained further."""

    line: int
    name: str
    object: str
    loop: tuple[int, int]
    """The first and the last line of the loop around it."""


def plateaus_by_hand(tree: SourceTree) -> Iterator[Plateau]:
    """In the order of their lines."""
    for node in tree.nodes:
        better = _kept_as_best(node) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and better is not None and _lowers_a_rate(tree, node):
            number, direction = better
            given, made = _origins(tree, number)
            yield Plateau(node.lineno, ast.unparse(number), direction, given, made)


def states_by_hand(tree: SourceTree) -> Iterator[Plateau]:
    """The comparisons where the state of a model is kept with the best number; in the order of their lines."""
    for node in tree.nodes:
        better = _kept_as_best(node) if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or better is None or _lowers_a_rate(tree, node):
            continue
        number, direction = better
        kept = [each for statement in _branch_with(node, number) for each in ast.walk(statement)]
        if any(_is_of_state(each) for each in kept):
            given, made = _origins(tree, number)
            yield Plateau(node.lineno, ast.unparse(number), direction, given, made)


def named_bests(tree: SourceTree) -> Iterator[NamedBest]:
    """Where a branch that keeps the best number gives a model, or what an optimizer holds, only a second name, in a
    loop that does not bind the first one, and something reads the second name elsewhere."""
    for node in tree.nodes:
        better = _kept_as_best(node) if isinstance(node, ast.If) else None
        loop = next(tree.loops_around(node), None) if better is not None else None
        if not isinstance(node, ast.If) or better is None or loop is None:
            continue
        branch = _branch_with(node, better[0])
        if any(isinstance(each, _ENDS) for statement in branch for each in ast.walk(statement)):
            continue  # it is not trained any further
        for target, value in (pair for each in branch if isinstance(each, ast.Assign) for pair in _pairs(each)):
            key, given = tree.key_of(target), tree.key_of(value)
            if key is None or given is None or not _is_trained_object(tree, given):
                continue
            is_bound = any(tree.key_of(each) == given for each in ast.walk(loop) if _is_bound(each))
            if not is_bound and tree.times_bound(key) > 0 and _is_read_outside(tree, key, node):
                lines = loop.lineno, last_line(loop.body[-1])
                yield NamedBest(target.lineno, ast.unparse(target), ast.unparse(value), lines)


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and not is_read(node)


def _is_read_outside(tree: SourceTree, key: Key, node: ast.If) -> bool:
    return any(
        isinstance(each, (ast.Name, ast.Attribute)) and is_read(each) and tree.key_of(each) == key
        for each in tree.nodes
        if node not in tree.around(each)
    )


def _is_trained_object(tree: SourceTree, key: Key) -> bool:
    """Whether an optimizer is given this, or its parameters, or it is switched to training."""
    for node in tree.nodes:
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "train" and tree.key_of(function.value) == key:
            return True
        if called_name(node) in _OPTIMIZERS and any(
            tree.key_of(each) == key for given in (*node.args, *node.keywords) for each in ast.walk(given)
        ):
            return True
    return False


_ENDS = (ast.Break, ast.Return, ast.Raise)
_OPTIMIZERS = frozenset({
    "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "LBFGS", "Rprop", "ASGD",
})  # fmt: skip


def _branch_with(node: ast.If, number: ast.expr) -> list[ast.stmt]:
    """The branch that keeps the number."""
    text = ast.unparse(number)
    for branch in (node.body, node.orelse):
        assigned = (pair for each in branch if isinstance(each, ast.Assign) for pair in _pairs(each))
        if any(ast.unparse(value) == text for _, value in assigned):
            return branch
    return []


def _is_of_state(node: ast.AST) -> bool:
    """Whether a call reads the whole state of a model, or copies or saves a model."""
    name = called_name(node)
    if name in ("deepcopy", "save") and isinstance(node, ast.Call):
        return bool(node.args) and _MODEL.search(ast.unparse(node.args[0])) is not None
    return name in ("state_dict", "save_pretrained", "save_checkpoint", "save_model")


_MODEL = re.compile(r"model|net|state_dict", re.IGNORECASE)


def _kept_as_best(node: ast.If) -> tuple[ast.expr, Better] | None:
    """The number that takes the place of the best one in a branch of a comparison of the two, and which is better."""
    conditions = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    for condition in conditions:
        if not isinstance(condition, ast.Compare) or len(condition.ops) != 1:
            continue
        is_larger = isinstance(condition.ops[0], (ast.Gt, ast.GtE))
        if not is_larger and not isinstance(condition.ops[0], (ast.Lt, ast.LtE)):
            continue
        direction: Better = "max" if is_larger else "min"
        sides = condition.left, condition.comparators[0]
        for number, best, turn in ((*sides, False), (*sides[::-1], True)):
            own = _TURNED[direction] if turn else direction
            if _assigns(node.body, best, number):
                return number, own
            if _assigns(node.orelse, best, number):
                return number, _TURNED[own]
    return None


def _assigns(body: list[ast.stmt], best: ast.expr, number: ast.expr) -> bool:
    """Whether statements give the best one the number; the best one may be compared with a margin."""
    names = {ast.unparse(each) for each in ast.walk(best) if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript))}
    if not isinstance(number, (ast.Name, ast.Attribute, ast.Subscript)):
        return False
    return any(
        ast.unparse(target) in names and ast.unparse(value) == ast.unparse(number)
        for statement in body
        if isinstance(statement, ast.Assign)
        for target, value in _pairs(statement)
    )


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=False)
        else:
            yield target, statement.value


def _lowers_a_rate(tree: SourceTree, node: ast.If) -> bool:
    """Whether the same function lowers a learning rate elsewhere than where the number was better, and because of a
    condition: in another branch, or behind it."""
    around = next((each for each in tree.around(node) if isinstance(each, (*FUNCTIONS, ast.For, ast.While))), None)
    kept = {id(each) for statement in _branch_of_best(node) for each in ast.walk(statement)}
    for each in ast.walk(around) if around is not None else ():
        if id(each) not in kept and _is_lowering(each) and any(isinstance(one, ast.If) for one in tree.around(each)):
            return True
    return False


def _branch_of_best(node: ast.If) -> list[ast.stmt]:
    found = [part for part in (node.body, node.orelse) if any(isinstance(each, ast.Assign) for each in part)]
    return found[0] if found else node.body


def _is_lowering(node: ast.AST) -> bool:
    """``group["lr"] *= 0.5``, ``group["lr"] = max(0.1 * group["lr"], least)``, ``group["lr"] /= 2``."""
    target = node.target if isinstance(node, ast.AugAssign) else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        is_product = any(isinstance(each, (ast.Mult, ast.Div)) for each in ast.walk(node.value))
        target = node.targets[0] if is_product else None  # type: ignore[assignment]
    is_rate = isinstance(target, ast.Subscript) and getattr(target.slice, "value", None) == "lr"
    is_changed = isinstance(node, ast.Assign) or isinstance(getattr(node, "op", None), (ast.Mult, ast.Div))
    return is_rate and is_changed


def _origins(tree: SourceTree, number: ast.expr) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """What calls give for a number that is an argument of the function around it, as source; and the lines that assign
    it."""
    function = tree.scope(number)
    name = last_name(number)
    made = [
        target.lineno
        for target, _ in tree.assignments
        if isinstance(target, ast.Name) and target.id == name and tree.scope(target) is function
    ]
    if not isinstance(function, FUNCTIONS):
        return (name,), tuple(made)
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if name not in arguments:
        return (name,), tuple(made)
    owner = tree.class_around(function)
    place = arguments.index(name) - (arguments[:1] == ["self"])
    called = {function.name} if function.name != "__call__" else set[str]()
    calls = [
        each
        for each in tree.nodes
        if isinstance(each, ast.Call) and (called_name(each) in called or _is_of(tree, each, owner))
    ]
    given = [each.args[place] for each in calls if len(each.args) > place]
    given += [each.value for call in calls for each in call.keywords if each.arg == name]
    lines = [
        target.lineno for target, _ in tree.assignments for each in given if ast.unparse(target) == ast.unparse(each)
    ]
    return tuple(ast.unparse(each) for each in given), (*lines, *(each.lineno for each in given))


def _is_of(tree: SourceTree, call: ast.Call, owner: ast.ClassDef | None) -> bool:
    """Whether an object of a class is called."""
    key = tree.key_of(call.func)
    values = tree.values_of(key)
    return owner is not None and any(called_name(value) == owner.name for value in values)
