"""The best score so far, with which each new one is compared, and which never gets the value of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import Key, Loop, SourceTree, called_name, last_line, last_name

_KEEP = frozenset({"state_dict", "deepcopy", "save", "save_pretrained", "save_model", "save_checkpoint", "copy"})
_PUT_BACK = frozenset({"load_state_dict", "load"})
_LEAVE = (ast.Break, ast.Return, ast.Raise)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LARGE = 1e4


class UnmovedBest(Struct, frozen=True):
    """``if score > best:``, where nothing ever sets ``best`` but the line before the loop."""

    name: str
    score: str
    start: str
    """What it is at first, as source."""
    line: int
    """Of the comparison."""
    set_at: int
    loop: tuple[int, int]
    """The first and the last line of the loop around it."""
    kept: tuple[int, int]
    """Those of what is done where the score is better."""
    may_be_goal: bool
    """Whether it is a negative number, which some scores may not reach."""


def unmoved_bests(tree: SourceTree) -> Iterator[tuple[UnmovedBest, Loop]]:
    """Each of them in a file, with the loop."""
    starts = {key: (target, value) for target, value in tree.assignments if (key := tree.key_of(target)) is not None}
    for node in tree.nodes:
        loop = next(tree.loops_around(node), None) if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or loop is None or not _keeps_something(node):
            continue
        for score, best in _compared(node.test):
            key = tree.key_of(best)
            start = starts.get(key) if key is not None and tree.times_bound(key) == 1 else None
            if (
                start is None
                or _is_negated(tree, best)
                or not _is_extreme(start[1])
                or loop in tree.loops_around(start[1])
            ):
                continue
            is_change = _number(start[1]) == 0 and _is_change(tree, score, loop)
            if _is_score_of(tree, score, loop) and not _is_gain(tree, score, node) and not is_change:
                yield (
                    UnmovedBest(
                        ast.unparse(best),
                        ast.unparse(score),
                        ast.unparse(start[1]),
                        node.lineno,
                        start[0].lineno,
                        (loop.lineno, loop.end_lineno or loop.lineno),
                        (node.body[0].lineno, last_line(node.body[-1])),
                        (_number(start[1]) or 0) < 0,
                    ),
                    loop,
                )


def _compared(test: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The two sides of each comparison in a condition, in both orders."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    for each in parts:
        if isinstance(each, ast.Compare) and len(each.ops) == 1 and isinstance(each.ops[0], _ORDERS):
            yield each.left, each.comparators[0]
            yield each.comparators[0], each.left


def _is_negated(tree: SourceTree, best: ast.expr) -> bool:
    """Whether a condition also has its negative: ``-INF < value and value < INF`` asks for a finite value."""
    conditions = [each for each in tree.around(best) if isinstance(each, (ast.BoolOp, ast.Compare))]
    inside = (node for condition in conditions for node in ast.walk(condition))
    return any(isinstance(node, ast.UnaryOp) and tree.key_of(node.operand) == tree.key_of(best) for node in inside)


def _keeps_something(node: ast.If) -> bool:
    """Whether a state is kept where the condition is true, or a counter begins anew that counts elsewhere."""
    inside = [each for statement in node.body for each in ast.walk(statement)]
    elsewhere = [each for statement in node.orelse for each in ast.walk(statement)]
    # A state that is put back where a loss is too large is kept where it is not: a limit, and no best.
    if any(isinstance(each, _LEAVE) for each in inside) or any(called_name(each) in _PUT_BACK for each in elsewhere):
        return False
    if any(called_name(each) in _KEEP for each in inside):
        return True
    counted = {
        ast.unparse(each.target)
        for each in elsewhere
        if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)
    }
    return any(
        isinstance(each, ast.Assign) and _number(each.value) == 0 and ast.unparse(each.targets[0]) in counted
        for each in node.body
    )


def _is_score_of(tree: SourceTree, score: ast.expr, loop: Loop) -> bool:
    """Whether each round of a loop computes the score anew: neither the variable of a loop nor a counter."""
    key = tree.key_of(score)
    if key is None:
        return isinstance(score, ast.Call)
    inside = list(ast.walk(loop))
    loops = [each for each in inside if isinstance(each, ast.For)]
    targets = {tree.key_of(name) for each in loops for name in ast.walk(each.target)}
    counted = {tree.key_of(each.target) for each in inside if isinstance(each, ast.AugAssign) and _is_count(each)}
    bound = {
        tree.key_of(name)
        for each in inside
        if isinstance(each, ast.Assign | ast.AnnAssign)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        for name in ast.walk(target)
    }
    return key in bound and key not in targets and key not in counted


def _is_gain(tree: SourceTree, score: ast.expr, node: ast.If) -> bool:
    """Whether a score is computed from a variable that is set where it is better: ``gain = best - loss``."""
    key = tree.key_of(score)
    moved = {tree.key_of(target) for target, _ in tree.assignments if node in tree.around(target)}
    sources = [value for target, value in tree.assignments if tree.key_of(target) == key]
    return any(tree.key_of(name) in moved - {None} for value in sources for name in ast.walk(value))


def _is_change(tree: SourceTree, score: ast.expr, loop: Loop) -> bool:
    """Whether a score is the difference to its value of the round before, of which only the sign counts."""
    key = tree.key_of(score)
    if key is None:
        return False
    kept = [(target, value) for target, value in tree.assignments if loop in tree.around(target)]
    values = [value for target, value in kept if tree.key_of(target) == key]
    for node in (each for value in values for each in ast.walk(value)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            sides = _names(tree, node.left), _names(tree, node.right)
            for before, now in (sides, sides[::-1]):
                if any(tree.key_of(target) in before and now & _names(tree, value) for target, value in kept):
                    return True
    return False


def _names(tree: SourceTree, value: ast.expr) -> set[Key]:
    return {key for each in ast.walk(value) if (key := tree.key_of(each)) is not None}


def _is_count(node: ast.AugAssign) -> bool:
    return type(_number(node.value)) is int


def _is_extreme(value: ast.expr) -> bool:
    """Whether a best score begins with it: 0, less than that, infinity, or a large number."""
    number = _number(value)
    if number is not None:
        return number <= 0 or number >= _LARGE
    if isinstance(value, ast.UnaryOp):
        return _is_extreme(value.operand)
    if isinstance(value, ast.Call) and last_name(value.func) == "float" and len(value.args) == 1:
        given = value.args[0]
        return isinstance(given, ast.Constant) and "inf" in str(given.value).lower()
    return last_name(value) in ("inf", "maxsize", "Inf", "infty")


def _number(value: ast.expr) -> float | int | None:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        number = _number(value.operand)
        return None if number is None else -number
    is_number = isinstance(value, ast.Constant) and type(value.value) in (int, float)
    return value.value if is_number and isinstance(value, ast.Constant) else None  # type: ignore[return-value]
