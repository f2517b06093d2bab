"""Lines that set a learning rate in a copy of an optimizer's groups, or under a name that no optimizer reads.

>>> tree = SourceTree(dict(enumerate('''def lower(opt):
...     state = opt.state_dict()
...     for group in state["param_groups"]:
...         group["lr"] *= 0.5
...     for group in opt.param_groups:
...         group["lr"] *= 0.5
... '''.splitlines(), start=1)))
>>> [(each.line, each.optimizer, each.place) for each in rates_set_in_copies(tree)]
[(4, 'opt', 'the learning rate in a dict that state_dict() made')]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import COMPREHENSIONS, SourceTree, called_name, is_read, last_name


class SetInCopy(Struct, frozen=True):
    """One statement."""

    line: int
    optimizer: str
    """The last part of the name of the optimizer."""
    place: str


class _Copy(Struct, frozen=True):
    optimizer: str
    place: str
    """What made a copy; empty for the groups themselves."""
    names: tuple[str, ...]
    """Variables that hold the copy, or a part of it."""


_RATE = "lr"
_OTHER_KEYS = frozenset({"learning_rate", "learn_rate", "LR"})
_IN_COPY = "the learning rate in a dict that {} made"
_WRAPPERS = frozenset({"enumerate", "zip", "list", "tuple", "reversed", "sorted", "iter"})
_MAX_STEPS = 8
_LOOKS = frozenset({"print", "len", "deepcopy", "copy", "dict", *_WRAPPERS})


def rates_set_in_copies(tree: SourceTree) -> Iterator[SetInCopy]:
    """Each statement that sets such a rate, of an optimizer that never gets the copy back."""
    read_keys = {
        node.slice.value
        for node in tree.nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
    }
    given_away = set(_given_away(tree))
    for node in tree.nodes:
        for key, group in _sets(node):
            copy = _copy_of(tree, group, _MAX_STEPS)
            if copy is None or not isinstance(node, (ast.stmt, ast.expr)):
                continue
            if copy.place and key == _RATE and given_away.isdisjoint(copy.names):
                yield SetInCopy(node.lineno, copy.optimizer, copy.place)
            elif not copy.place and key in _OTHER_KEYS and key not in read_keys:
                yield SetInCopy(node.lineno, copy.optimizer, f'group["{key}"]')


def _sets(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The keys that a statement sets, with the dict."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    for target in targets:
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            yield str(target.slice.value), target.value
    if called_name(node) == "update" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        keys = [each.arg for each in node.keywords]
        texts = [key for each in node.args if isinstance(each, ast.Dict) for key in each.keys]
        keys += [key.value for key in texts if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        yield from ((str(key), node.func.value) for key in keys)


def _copy_of(tree: SourceTree, node: ast.expr, steps: int) -> _Copy | None:
    """Whether an expression is a group of an optimizer, or a copy of one."""
    made_by, names = "", list[str]()
    for _ in range(steps):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute) and node.attr == "param_groups":
            return _Copy(last_name(node.value), made_by, tuple(names))
        elif called_name(node) == "state_dict" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return _Copy(last_name(node.func.value), _IN_COPY.format("state_dict()"), tuple(names))
        elif isinstance(node, ast.Call) and called_name(node) in ("deepcopy", "dict") and len(node.args) == 1:
            made_by, node = made_by or _IN_COPY.format(f"{called_name(node)}()"), node.args[0]
        elif isinstance(node, ast.Call) and called_name(node) == "copy" and isinstance(node.func, ast.Attribute):
            inner = node.args[0] if node.args else node.func.value
            # A copy of the list has the same dicts; a copy of one dict is another dict.
            is_of_list = isinstance(inner, ast.Attribute) and inner.attr == "param_groups"
            made_by, node = made_by if is_of_list else made_by or _IN_COPY.format("copy()"), inner
        elif isinstance(node, ast.Call) and called_name(node) in _WRAPPERS and node.args:
            node = node.args[0]
        elif isinstance(node, ast.Dict) and None in node.keys:
            made_by, node = made_by or _IN_COPY.format("{**group}"), node.values[node.keys.index(None)]
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            node = node.elt
        else:
            found = _bound_to(tree, node)
            if found is None:
                return None
            names += [node.id] if isinstance(node, ast.Name) else []
            node = found
    return None


def _bound_to(tree: SourceTree, node: ast.expr) -> ast.expr | None:
    """The one value of a variable; of the variable of a loop, what it goes over, the nearest loop first."""
    key = tree.key_of(node)
    if key is None:
        return None
    for around in tree.around(node):
        if isinstance(around, (ast.For, ast.AsyncFor)) and key in _keys_in(tree, around.target):
            return around.iter
        for part in around.generators if isinstance(around, COMPREHENSIONS) else ():
            if key in _keys_in(tree, part.target):
                return part.iter
    values = [value for target, value in tree.assignments if tree.key_of(target) == key]
    return values[0] if len(values) == 1 and values[0] is not node else None


def _keys_in(tree: SourceTree, target: ast.expr) -> set[object]:
    return {tree.key_of(each) for each in ast.walk(target) if isinstance(each, ast.Name) and not is_read(each)}


def _given_away(tree: SourceTree) -> Iterator[str]:
    """Variables that calls get, such as those that load or save them, or that functions return."""
    for node in tree.nodes:
        given: list[ast.expr | None] = []
        if isinstance(node, ast.Call) and called_name(node) not in _LOOKS:
            given = [*node.args, *(each.value for each in node.keywords)]
        elif isinstance(node, (ast.Return, ast.Yield)):
            given = [node.value]
        for value in given:
            yield from (each.id for each in ast.walk(value or ast.Pass()) if isinstance(each, ast.Name))
