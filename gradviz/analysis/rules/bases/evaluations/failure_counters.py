"""Counters of the times at which a score was no better than the best one, which nothing sets back."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, last_name

_VARIABLES = (ast.Name, ast.Attribute)
_STOPS = (ast.Break, ast.Return, ast.Raise)
_REACHES = (ast.Gt, ast.GtE, ast.Eq)


class FailureCounter(Struct, frozen=True):
    """``else: counter += 1``, where nothing sets ``counter`` but what came before."""

    name: str
    best: str
    line: int
    """Where it counts."""
    better: int
    """Where the best score is kept."""


def counters_that_only_rise(tree: SourceTree) -> Iterator[FailureCounter]:
    """Each counter of a file that ends something when it is large, and that counts in the other branch of the condition
    under which a score becomes the best one."""
    for node in tree.nodes:
        if not isinstance(node, ast.If):
            continue
        compared = _variables(_condition(tree, node.test))
        for better, worse in _branches(tree, node, compared):
            best = _kept_best(better, compared)
            # Beside one that is set back, another one may count the failures of the whole run; so may one of steps that
            # are taken back.
            is_other_set_back = any(_is_set_back(each, better) for each in _counted(worse))
            is_other_set_back |= _puts_back(worse)
            for counted in _counted(worse) if best is not None and not is_other_set_back else []:
                key = tree.key_of(counted.target)
                if best is not None and key is not None and _only_rises(tree, key, node) and _ends_something(tree, key):
                    name = ast.unparse(counted.target)
                    yield FailureCounter(name, ast.unparse(best), counted.lineno, best.lineno)


def _branches(tree: SourceTree, node: ast.If, compared: set[str]) -> list[tuple[list[ast.stmt], list[ast.stmt]]]:
    """What runs where a condition holds, and what runs where it does not, in both orders: its ``else``; what follows if
    it ends with ``continue`` or ``return``; or else a condition below that compares the same."""
    following = _following(tree, node)
    if node.orelse or isinstance(node.body[-1], (ast.Continue, ast.Return)):
        other: list[ast.stmt] = node.orelse or following
        return [(node.body, other), (other, node.body)]
    below = [each for each in following if isinstance(each, ast.If) and compared and _variables(each.test) == compared]
    return [(node.body, each.body) for each in below if not each.orelse]


def _following(tree: SourceTree, node: ast.If) -> list[ast.stmt]:
    """The statements below a condition, in the same block."""
    blocks = (getattr(tree.parent(node), field, None) for field in ("body", "orelse", "finalbody"))
    block: list[ast.stmt] = next((each for each in blocks if isinstance(each, list) and node in each), [node])
    return block[block.index(node) + 1 :]


def _condition(tree: SourceTree, test: ast.expr) -> ast.expr:
    """What a condition was computed as, if it is a variable with one value."""
    key = tree.key_of(test)
    values = tree.values_of(key)
    return values[0] if len(values) == 1 else test


def _variables(test: ast.expr) -> set[str]:
    """What a condition compares, as source; nothing if it compares no two."""
    nodes = list(ast.walk(test))
    if not any(
        isinstance(each, ast.Compare) and isinstance(each.ops[0], (*_REACHES, ast.Lt, ast.LtE)) for each in nodes
    ):
        return set()
    return {ast.unparse(each) for each in nodes if isinstance(each, _VARIABLES)}


def _kept_best(branch: list[ast.stmt], compared: set[str]) -> ast.expr | None:
    """The variable of a condition that a branch gives the value of another one."""
    for node in branch:
        for target, value in _pairs(node):
            names = {ast.unparse(each) for each in ast.walk(value) if isinstance(each, _VARIABLES)}
            if ast.unparse(target) in compared and names & compared - {ast.unparse(target)}:
                return target
    return None


def _pairs(node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            yield from zip(target.elts, value.elts, strict=False)
        else:
            yield target, value


def _counted(branch: list[ast.stmt]) -> list[ast.AugAssign]:
    """``counter += 1``, also under a further condition."""
    return _counts(node for statement in branch for node in ast.walk(statement))


def _is_set_back(counted: ast.AugAssign, branch: list[ast.stmt]) -> bool:
    name = ast.unparse(counted.target)
    return any(name == ast.unparse(target) for statement in branch for target, _ in _pairs(statement))


def _puts_back(branch: list[ast.stmt]) -> bool:
    return any(called_name(each) == "load_state_dict" for statement in branch for each in ast.walk(statement))


def _counts(nodes: Iterable[ast.AST]) -> list[ast.AugAssign]:
    sums = [each for each in nodes if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)]
    return [each for each in sums if isinstance(each.value, ast.Constant) and each.value.value == 1]


def _only_rises(tree: SourceTree, key: Key, node: ast.If) -> bool:
    """Whether a counter begins at 0 somewhere else than in the loop or function of its condition, and only counts."""
    counts = [each for each in _counts(tree.nodes) if tree.key_of(each.target) == key]
    starts = [(target, value) for target, value in tree.assignments if tree.key_of(target) == key]
    fields = _fields(tree, key)
    name = key.name.removeprefix("self.")
    if len(starts) + len(fields) != 1 or not all(
        _is_zero(value) for value in (*fields, *(value for _, value in starts))
    ):
        return False
    if tree.times_bound(key) != len(counts) + len(starts) or (name != key.name and name in tree.foreign):
        return False
    if any(_is_called_again(tree, tree.scope(target)) for target, _ in starts):
        return False
    loop = next(tree.loops_around(node), None)
    if loop is None:
        return fields != [] or all(tree.scope(target) is not tree.scope(node) for target, _ in starts)
    return all(loop not in tree.loops_around(target) for target, _ in starts)


def _is_called_again(tree: SourceTree, function: ast.AST) -> bool:
    """Whether a method that sets a counter to 0 is called elsewhere than where an object is made: ``self.reset()``."""
    name = function.name if isinstance(function, FUNCTIONS) else ""
    callers = [tree.scope(node) for node in tree.nodes if name and called_name(node) == name]
    is_method = any(isinstance(each, ast.ClassDef) for each in tree.around(function))
    return is_method and any(getattr(each, "name", "") not in ("__init__", "__post_init__") for each in callers)


def _fields(tree: SourceTree, key: Key) -> list[ast.expr]:
    """What a class gives an attribute in its body, as dataclasses do."""
    classes = [each for each in tree.nodes if isinstance(each, ast.ClassDef) and each.lineno == key.owner]
    return [
        each.value
        for owner in classes
        for each in owner.body
        if isinstance(each, ast.AnnAssign) and each.value is not None and f"self.{last_name(each.target)}" == key.name
    ]


def _is_zero(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == 0 and value.value is not False


def _ends_something(tree: SourceTree, key: Key) -> bool:
    """Whether a loop or a function ends, or a flag is set, when a counter reaches a limit."""
    for node in tree.nodes:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, right, order = node.left, node.comparators[0], node.ops[0]
        is_reached = isinstance(order, _REACHES) and tree.key_of(left) == key
        is_reached |= isinstance(order, (ast.Lt, ast.LtE)) and tree.key_of(right) == key
        is_below = isinstance(order, (ast.Lt, ast.LtE)) and tree.key_of(left) == key
        for around in tree.around(node):
            if isinstance(around, FUNCTIONS):
                break
            if is_below and isinstance(around, ast.While):
                return True
            if is_reached and (isinstance(around, ast.Return) or (isinstance(around, ast.If) and _stops(around))):
                return True
            if is_reached and isinstance(around, ast.Assign) and around.value is node:
                return True
    return False


def _stops(node: ast.If) -> bool:
    inside = [each for statement in node.body for each in ast.walk(statement)]
    is_flag = any(
        isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in inside
    )
    return is_flag or any(isinstance(each, _STOPS) and not _is_of_error(each) for each in inside)


def _is_of_error(node: ast.AST) -> bool:
    """Whether an exception says that something is wrong: the limit is none of patience."""
    return isinstance(node, ast.Raise) and (called_name(node.exc) if node.exc else "").endswith("Error")
