"""Statements that keep the state of a model or an optimizer without a copy, or that load another one's so.

>>> tree = SourceTree(dict(enumerate('''def save():
...     best["opt"] = opt.state_dict()
...     model_state = copy.deepcopy(model.state_dict())
... def restore():
...     opt.load_state_dict(best["opt"])
...     target.load_state_dict(online.state_dict(), assign=True)
... '''.splitlines(), start=1)))
>>> list(kept_states(tree))
[(2, 'opt')]
>>> list(assigned_states(tree))
[(6, 'target', 'online')]
>>> steps_between(tree, 2, 5), steps_between(tree, 5, 6)
(True, False)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name


def kept_states(tree: SourceTree) -> Iterator[tuple[int, str]]:
    """Each line that binds the result of ``state_dict()`` itself, with the last part of the name of whose it is."""
    for node in tree.nodes:
        owner = _owner_of_state(node)
        if owner is None or not isinstance(node, ast.Call):
            continue
        for around in tree.around(node):
            if isinstance(around, (ast.Assign, ast.AnnAssign)):
                yield node.lineno, owner
            if not isinstance(around, (ast.Dict, ast.Tuple, ast.List)):
                break


def owners_of_loads(tree: SourceTree, line: int) -> set[str]:
    """The last parts of the names of what a line loads a state into."""
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and node.lineno == line)
    loads = (node.func for node in calls if called_name(node) == "load_state_dict")
    return {last_name(function.value) for function in loads if isinstance(function, ast.Attribute)}


def assigned_states(tree: SourceTree) -> Iterator[tuple[int, str, str]]:
    """Each line that loads the state of another module with ``assign=True``, with the names of both."""
    for node in tree.nodes:
        if not isinstance(node, ast.Call) or called_name(node) != "load_state_dict" or not node.args:
            continue
        source = _owner_of_state(node.args[0])
        is_assigned = any(each.arg == "assign" and getattr(each.value, "value", 0) is True for each in node.keywords)
        if source is not None and is_assigned and isinstance(node.func, ast.Attribute):
            yield node.lineno, last_name(node.func.value), source


def steps_between(tree: SourceTree, first: int, last: int) -> bool:
    """Whether an optimizer may step between two lines: they are in different functions, or one calls ``step()``."""
    nodes = {node.lineno: node for node in tree.nodes if isinstance(node, ast.Call) and node.lineno in (first, last)}
    if len({tree.scope(node) for node in nodes.values()}) > 1:
        return True
    steps = (node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == "step")
    return any(first < node.lineno < last for node in steps)


def _owner_of_state(node: ast.AST) -> str | None:
    is_state = isinstance(node, ast.Call) and called_name(node) == "state_dict"
    if not is_state or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    return last_name(node.func.value)
