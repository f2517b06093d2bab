"""Which of a few colours each module has, for pictures that are coloured by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradviz.graph.view import Item
from gradviz.rendering.subject_words import SubjectWords
from gradviz.rendering.tints import CATEGORIES

OTHERS = "other modules"


def module_categories(subject: SubjectWords) -> tuple[list[str], list[int | None]]:
    """Paths of modules, at most as many as there are colours, and for each item which of them it belongs to.

    The paths are as long as they can be without becoming too many. Where even the first that differ are, those with the
    most autograd nodes have colours of their own.
    """
    paths = [_path(subject, item) for item in subject.view.items]
    sizes = _sizes(subject)
    depth = _depth(sizes)
    names = list(dict.fromkeys(_head(path, depth) for path in sizes))
    if len(names) > CATEGORIES:
        totals: Counter[str] = Counter()
        for path, size in sizes.items():
            totals[_head(path, depth)] += size
        largest = {name for name, _ in totals.most_common(CATEGORIES - 1)}
        names = [*(name for name in names if name in largest), OTHERS]
    places = {name: place for place, name in enumerate(names)}
    others = places.get(OTHERS)
    return names, [None if path is None else places.get(_head(path, depth), others) for path in paths]


def _sizes(subject: SubjectWords) -> Counter[str]:
    """How many nodes each module call made, by path, in the order of the computation."""
    scopes = subject.graph.scopes
    found: Counter[str] = Counter()
    for node in subject.graph.nodes:
        if node.scope is not None and scopes[node.scope].kind == "module":
            found[scopes[node.scope].path] += 1
    return found


def _depth(paths: Sequence[str] | Counter[str]) -> int:
    """How many names of a path tell modules apart: the most that need no more than all colours, but two at least."""
    deepest = max((path.count(".") + 1 for path in paths), default=1)
    counts = [len({_head(path, depth) for path in paths}) for depth in range(1, deepest + 1)]
    fitting = [depth for depth, count in enumerate(counts, 1) if 1 < count <= CATEGORIES]
    return max(fitting, default=next((depth for depth, count in enumerate(counts, 1) if count > 1), 1))


def _head(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])


def _path(subject: SubjectWords, item: Item) -> str | None:
    """The module that an item belongs to: a leaf to the one around it."""
    scopes = subject.graph.scopes
    scope = item.scope
    if scope is None and item.node is not None:
        scope = subject.graph.nodes[item.node].scope
    if scope is not None and scopes[scope].kind == "module":
        return scopes[scope].path
    return subject.enclosing_path(item) or None
