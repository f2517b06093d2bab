"""The operations of a run as a tree of module calls, with keys by which parts of two trees are recognised.

Keys are small integers that two trees share. From the surest to the vaguest:

=============== ======================================================================================================
``value``       the same operation with the same result, bit for bit; for a module call, all operations in it
``parameters``  the same operation on parameters with the same bits
``exact``       the same operation with the same arguments and shapes, from a line with the same text
``named``       a module call of the same class and name (unless that is only a number); an operation, line and text
``shape``       the same operation with a result of the same shape
``kind``        the same operation, or a module of the same class
=============== ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from gradviz.analysis.diff.runs import Operation, Run, scalars_of

LEVELS = ("value", "parameters", "exact", "named", "shape", "kind")


@dataclass(slots=True)
class Item:
    """An operation, or a module call with the items in it."""

    operation: int | None = None
    scope: int | None = None
    children: list[int] = field(default_factory=list)
    size: int = 1
    """Operations in it."""


class CallTree:
    """The tree of one run. `items` are in the order in which they began, so a module call precedes what is in it."""

    def __init__(self, run: Run, keys: KeyTable) -> None:
        self.run = run
        self.items: list[Item] = []
        self.top: list[int] = []
        self._build()
        self.keys: dict[str, list[int | None]] = {level: self._keys_of(level, keys) for level in LEVELS}

    def _build(self) -> None:
        open_scopes: list[tuple[int, int]] = []
        chains: dict[int | None, tuple[int, ...]] = {None: ()}
        for operation in self.run.operations:
            chain = self._chain(operation.scope, chains)
            depth = 0
            while depth < min(len(chain), len(open_scopes)) and open_scopes[depth][0] == chain[depth]:
                depth += 1
            del open_scopes[depth:]
            for scope in chain[depth:]:
                open_scopes.append((scope, self._add(Item(scope=scope), open_scopes)))
            self._add(Item(operation=operation.index), open_scopes)
        for index in range(len(self.items) - 1, -1, -1):
            item = self.items[index]
            if item.operation is None:
                item.size = sum(self.items[child].size for child in item.children)

    def _chain(self, scope: int | None, chains: dict[int | None, tuple[int, ...]]) -> tuple[int, ...]:
        known = chains.get(scope)
        if known is None:
            assert scope is not None
            # A parent precedes its children in the table, and nesting is shallow.
            known = chains[scope] = (*self._chain(self.run.scopes[scope].parent, chains), scope)
        return known

    def _add(self, item: Item, open_scopes: Sequence[tuple[int, int]]) -> int:
        index = len(self.items)
        self.items.append(item)
        siblings = self.items[open_scopes[-1][1]].children if open_scopes else self.top
        siblings.append(index)
        return index

    def _keys_of(self, level: str, table: KeyTable) -> list[int | None]:
        found: list[int | None] = [None] * len(self.items)
        of_operation, of_module = _OPERATION_KEYS[level], _MODULE_KEYS[level]
        for index in range(len(self.items) - 1, -1, -1):
            item = self.items[index]
            if item.operation is not None:
                key = of_operation(self.run, self.run.operations[item.operation])
            else:
                key = of_module(self.run, item, [found[child] for child in item.children])
            found[index] = None if key is None else table.number((level, key))
        return found


class KeyTable:
    """Gives equal keys of two trees the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        """The number of a key."""
        return self._numbers.setdefault(key, len(self._numbers))


def _value(run: Run, operation: Operation) -> Hashable:
    checksums = tuple(
        result.figures.fingerprint.checksum
        if result.figures is not None and result.figures.fingerprint is not None
        else None
        for result in operation.results
    )
    return None if not checksums or None in checksums else (operation.word, checksums)


def _parameters(run: Run, operation: Operation) -> Hashable:
    checksums = tuple(
        operand.figures.fingerprint.checksum
        for operand in operation.operands
        if operand.is_parameter and operand.figures is not None and operand.figures.fingerprint is not None
    )
    return (operation.word, checksums) if checksums else None


def _shapes(operation: Operation) -> Hashable:
    return tuple(result.facts.shape if result.facts is not None else None for result in operation.results)


def _exact(run: Run, operation: Operation) -> Hashable:
    arguments = tuple(sorted(scalars_of(operation).items(), key=lambda pair: pair[0]))
    # Equal numbers of different types, and NaN, are told apart by their text.
    return operation.function, repr(arguments), _shapes(operation), run.innermost_text(operation)


def _named(run: Run, operation: Operation) -> Hashable:
    text = run.innermost_text(operation)
    return (operation.word, text) if text else None


def _shape(run: Run, operation: Operation) -> Hashable:
    return operation.word, _shapes(operation)


def _kind(run: Run, operation: Operation) -> Hashable:
    return operation.word


def _module_of_all(run: Run, item: Item, children: Sequence[int | None]) -> Hashable:
    assert item.scope is not None
    return None if None in children else (run.scopes[item.scope].class_name, tuple(children))


def _module_of_known(run: Run, item: Item, children: Sequence[int | None]) -> Hashable:
    assert item.scope is not None
    known = tuple(child for child in children if child is not None)
    return (run.scopes[item.scope].class_name, known) if known else None


def _module_of_name(run: Run, item: Item, children: Sequence[int | None]) -> Hashable:
    assert item.scope is not None
    scope = run.scopes[item.scope]
    name = scope.path.rpartition(".")[2]
    return None if name.isdigit() else (scope.class_name, name)


def _module_of_class(run: Run, item: Item, children: Sequence[int | None]) -> Hashable:
    assert item.scope is not None
    return run.scopes[item.scope].class_name


_OPERATION_KEYS: dict[str, Callable[[Run, Operation], Hashable]] = {
    "value": _value,
    "parameters": _parameters,
    "exact": _exact,
    "named": _named,
    "shape": _shape,
    "kind": _kind,
}
_MODULE_KEYS: dict[str, Callable[[Run, Item, Sequence[int | None]], Hashable]] = {
    "value": _module_of_all,
    "parameters": _module_of_known,
    "exact": _module_of_all,
    "named": _module_of_name,
    "shape": _module_of_all,
    "kind": _module_of_class,
}
