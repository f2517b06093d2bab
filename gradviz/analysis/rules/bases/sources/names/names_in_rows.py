"""Names of two parts that a class gives its parameters, ``w_mean``, ``w_std`` and ``b_mean``, and a fourth one.

>>> is_fourth("b_std", {"w_mean", "w_std", "b_mean"}), is_fourth("b2", {"w1", "b1", "w2", "scale"})
(True, True)
>>> is_fourth("b_std", {"w_mean", "w_std"}), is_fourth("scale", {"w1", "b1", "w2"})
(False, False)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from gradviz.analysis.sources.source_tree import SourceTree, called_name


def is_fourth(name: str, others: Collection[str]) -> bool:
    """Whether three other names are made of the same two first parts, and of the same two second ones."""
    own = _parts(name)
    if own is None:
        return False
    first, second = own
    known = {parts for other in others if (parts := _parts(other)) is not None}
    return any(
        one != first and other != second and (one, second) in known and (first, other) in known for one, other in known
    )


def _parts(name: str) -> tuple[str, str] | None:
    if "_" in name:
        first, _, second = name.rpartition("_")
        return (first, second) if first and second else None
    found = re.fullmatch(r"([A-Za-z]+)(\d+)", name)
    return None if found is None else (found[1], found[2])


def parameters_beside(tree: SourceTree, line: int) -> set[str]:
    """The attributes to which the function around a line assigns ``nn.Parameter(...)``."""
    statement = tree.statement_at(line)
    scope = None if statement is None else tree.scope(statement)
    return {
        target.attr
        for node in (() if scope is None else ast.walk(scope))
        if isinstance(node, ast.Assign) and called_name(node.value) == "Parameter"
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
