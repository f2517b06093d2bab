"""Attributes that are set on the data set behind one part of a split, which the other part has as well."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import (
    Key,
    SourceTree,
    called_name,
    first_line,
    last_line,
    last_name,
)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class SharedAttribute(Struct, frozen=True):
    """``val.dataset.transform = plain``, where ``train`` is another part of the same data set."""

    part: str
    other: str
    attribute: str
    line: int
    split_at: int
    until: int
    """The last line of the function that sets it."""

    is_first: bool
    """Whether it is set on the first part only, where no transform is given before: both may need it."""


def shared_attributes(tree: SourceTree) -> Iterator[SharedAttribute]:
    """Each of them in a file that runs once, and that no data set of its own for one part precedes."""
    if "dataset" in tree.foreign:
        return  # Some part got a copy.
    parts = _parts_of_splits(tree)
    last, set_on = dict[tuple[int, str], SharedAttribute](), defaultdict[str, set[Key]](set)
    for target, _ in tree.assignments:
        if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Attribute):
            continue
        owner = target.value
        key = tree.key_of(owner.value)
        if owner.attr != "dataset" or key not in parts or next(tree.loops_around(target), None) is not None:
            continue
        split, others = parts[key]
        set_on[target.attr].add(key)
        other = next((each for each in others if _is_read_after(tree, each, split)), None)
        if other is None:
            continue
        scope = tree.scope(target)
        end = last_line(scope) if isinstance(scope, _FUNCTIONS) else max(getattr(n, "lineno", 0) for n in tree.nodes)
        # Where both parts set it, the last one counts for both.
        last[first_line(scope), target.attr] = SharedAttribute(
            ast.unparse(owner.value),
            other.name,
            target.attr,
            target.lineno,
            split,
            end,
            is_first=set_on[target.attr] == {_first_part(parts)} and not _is_given_before(tree, target.attr, split),
        )
    yield from last.values()


def _first_part(parts: dict[Key, tuple[int, list[Key]]]) -> Key | None:
    """The first variable of the only split, which has the part for training."""
    return next(iter(parts), None) if len({line for line, _ in parts.values()}) == 1 else None


def _is_given_before(tree: SourceTree, attribute: str, line: int) -> bool:
    """Whether the data set gets a value of its own of an attribute, before it is split."""
    given = [
        keyword.value
        for node in tree.nodes
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == attribute
    ] + [
        value
        for target, value in tree.assignments
        if isinstance(target, ast.Attribute) and target.attr == attribute and last_name(target.value) != "self"
    ]
    return any(
        value.lineno <= line and not (isinstance(value, ast.Constant) and value.value is None) for value in given
    )


def _parts_of_splits(tree: SourceTree) -> dict[Key, tuple[int, list[Key]]]:
    """By variable: the line of the ``random_split()``, and the other variables that hold a part of it."""
    found: dict[Key, tuple[int, list[Key]]] = {}
    for target, value in tree.assignments:
        if called_name(value) != "random_split" or not isinstance(target, ast.Tuple):
            continue
        keys = [key for each in target.elts if (key := tree.key_of(each)) is not None]
        for key in keys:
            if tree.times_bound(key) == 1:
                found[key] = value.lineno, [each for each in keys if each != key]
    return found


def _is_read_after(tree: SourceTree, key: Key, line: int) -> bool:
    names = (node for node in tree.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return any(
        node.lineno > line and tree.key_of(node) == key and not isinstance(tree.parent(node), ast.Attribute)
        for node in names
    )
