"""In which order a program goes over one iterator: what certainly comes after what, and what certainly runs again."""

from __future__ import annotations

import ast

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.iterators.named_iterators import NamedIterator
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import LOOPS, Key, Loop, SourceTree, called_name, is_read

_CONDITIONS = (ast.If, ast.IfExp, ast.While, ast.Match, ast.ExceptHandler, ast.BoolOp)


class Use(Struct, frozen=True):
    """A loop, a comprehension or a call that takes all elements of an iterator."""

    node: ast.For | ast.expr
    key: Key
    read: ast.expr
    """The variable, where it is read."""

    @property
    def is_call(self) -> bool:
        return isinstance(self.node, ast.Call)


class Order:
    """Which uses of one iterator come after others."""

    def __init__(self, tree: SourceTree, held: NamedIterator) -> None:
        self._tree, self._held = tree, held
        self._scope = tree.scope(held.made)
        self._loops_of_making = set(tree.loops_around(held.made))

    def is_before(self, one: Use, other: Use) -> bool:
        """Whether one use certainly has gone over all elements when another one begins."""
        if self._tree.scope(one.node) is self._tree.scope(other.node):
            return self._comes_before(one.node, other.node)
        first, second = self._place(one), self._place(other)
        if first is None or not (first is one.node or self._is_certain(one.node, self._tree.scope(one.node))):
            return False
        if second is None:  # in a function that is called later
            return self._is_certain(first, self._scope) and self._is_called(other)
        return self._comes_before(first, second)

    def loop_around(self, use: Use) -> Loop | None:
        """The loop that certainly runs a use again after it has used all up."""
        place = self._place(use)
        loop = self._loop_that_repeats(use.node if place is None or use.key in self._held.places else place)
        if loop is not None and loop not in self._loops_of_making:
            return loop
        if place is not None or loop is not None:
            return None
        function = self._tree.scope(use.node)
        return self._loop_that_calls(function) if self._is_certain(use.node, function) else None

    def _place(self, use: Use) -> ast.AST | None:
        """What runs a use, in the function that makes the iterator; None for other functions."""
        if self._tree.scope(use.node) is self._scope:
            return use.node
        function = getattr(self._tree.scope(use.node), "lineno", 0)
        receives_it = any(key.owner == function for key in self._held.places)
        return self._held.places.get(use.key) if receives_it else None

    def _comes_before(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether a node certainly runs before another one of the same function."""
        tree = self._tree
        above = [other, *tree.around(other)]
        below = one
        for node in tree.around(one):
            if node in above:
                later = above[above.index(node) - 1]
                return _is_in_one_block(node, below, later)
            if isinstance(node, (*_CONDITIONS, *LOOPS, *FUNCTIONS, ast.Lambda)) and not _is_head(node, below):
                return False
            below = node
        return False

    def _is_certain(self, node: ast.AST, within: ast.AST) -> bool:
        """Whether a node runs whenever the function around it does."""
        below = node
        for around in self._tree.around(node):
            if around is within:
                return True
            if isinstance(around, (*_CONDITIONS, *LOOPS)) and not _is_head(around, below):
                return False
            below = around
        return False

    def _loop_that_repeats(self, node: ast.AST) -> Loop | None:
        """The innermost loop that runs a node each time."""
        loop = next(self._tree.loops_around(node), None)
        return loop if loop is not None and self._is_certain(node, loop) else None

    def _is_called(self, use: Use) -> bool:
        name = getattr(self._tree.scope(use.node), "name", "")
        return name in ("forward", "__call__") or any(called_name(node) == name for node in self._tree.nodes)

    def _loop_that_calls(self, function: ast.AST) -> Loop | None:
        """A loop that calls a function, perhaps through others, without making the iterator anew."""
        seen, waiting = set[str](), [getattr(function, "name", "")]
        while waiting and function is not self._scope:
            name = waiting.pop()
            seen.add(name)
            for node in self._tree.nodes if name else ():
                is_given = isinstance(node, ast.Name) and node.id == name and is_read(node)
                if called_name(node) != name and not is_given:
                    continue
                loop, around = self._loop_that_repeats(node), self._tree.scope(node)
                if loop is not None and loop not in self._loops_of_making:
                    return loop
                caller = getattr(around, "name", "")
                if loop is None and around is not self._scope and caller not in seen and self._is_certain(node, around):
                    waiting.append(caller)
        return None


def _is_head(node: ast.AST, below: ast.AST) -> bool:
    """Whether a part of a statement or expression runs before what it decides: its iterable or its condition."""
    return below is getattr(node, "iter", None) or below is getattr(node, "test", None)


def _is_in_one_block(block: ast.AST, one: ast.AST, other: ast.AST) -> bool:
    """Whether two parts of a statement are statements of one list, in this order; or parts of a loop over one and
    its body; or a call's arguments."""
    for _, value in ast.iter_fields(block):
        if isinstance(value, list) and one in value and other in value:
            return value.index(one) < value.index(other)
    return _is_head(block, one) and other is not one
