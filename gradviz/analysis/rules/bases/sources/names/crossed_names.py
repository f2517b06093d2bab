"""Two values that a call of the program's own functions gives, or takes back, in the order of each other's names.

>>> tree = SourceTree(dict(enumerate('''def advantages(rewards, values, gamma):
...     return rewards, values
... advantages(old_values, rewards, 0.9)
... values, rewards = advantages(rewards, values, 0.9)
... class Field(Module):
...     def forward(self, x, t): ...
... u = Field()
... u(x, t), u(t0, x0)
... '''.splitlines(), start=1)))
>>> [(each.line, each.given, each.wanted, each.is_result) for each in crossed_names(tree)]
[(4, ('values', 'rewards'), ('rewards', 'values'), True), (8, ('t0', 'x0'), ('x', 't'), False)]

The first call crosses nothing: ``old_values`` may be meant.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.rules.bases.sources.names.named_tuples import NamedTuple, named_tuples
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, parameters_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
Pair = tuple[str, str]


class CrossedNames(Struct, frozen=True):
    """One pair of values."""

    line: int
    called: str
    """What is called, as source."""
    given: Pair
    """The names at the call."""
    wanted: Pair
    """The names in the function, in the same places."""
    function_line: int
    """The line of the function, or of its ``return``."""
    is_result: bool
    """Whether these are what the call returns, not what it is given."""
    first_line: int
    """Where what ran shows that the call ran: its line; that of the function around it, if it only makes a tuple."""


_EITHER_WAY = frozenset({
    "a", "b", "p", "q", "u", "v", "left", "right", "source", "src", "target", "tgt", "dst", "first", "second", "real",
    "fake", "old", "new", "one", "other", "student", "teacher", "query", "key",
})  # fmt: skip
"""Names of places that programs fill the other way round on purpose."""


def crossed_names(tree: SourceTree) -> Iterator[CrossedNames]:
    """In the order of the lines. What is called in both orders with the same names is meant."""
    functions, tuples = _Functions(tree), named_tuples(tree)
    calls: dict[int, list[tuple[ast.Call, list[str]]]] = defaultdict(list)
    found = list[CrossedNames]()
    for node in tree.nodes:
        if isinstance(node, ast.Call) and (function := functions.called_by(node)) is not None:
            calls[id(function)].append((node, _names(_arguments(node, parameters_of(function)))))
            found += _of_result(tree, node, functions.returns[id(function)], tuples)
    for function in functions.all:
        found += _of_arguments(calls[id(function)], parameters_of(function), function.lineno)
    made: dict[str, list[tuple[ast.Call, list[str]]]] = defaultdict(list)
    for node in tree.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in tuples:
            made[node.func.id].append((node, _names(_arguments(node, tuples[node.func.id].fields))))
    for name, calls_of_class in made.items():
        for crossed in _of_arguments(calls_of_class, tuples[name].fields, tuples[name].line):
            call = next(call for call, _ in calls_of_class if call.lineno == crossed.line)
            found.append(replace(crossed, first_line=getattr(tree.scope(call), "lineno", crossed.line)))
    yield from sorted(found, key=lambda each: each.line)


def _of_arguments(
    calls: list[tuple[ast.Call, list[str]]], wanted: list[str], function_line: int
) -> Iterator[CrossedNames]:
    for call, given in calls:
        for i, j in combinations(range(min(len(given), len(wanted))), 2):
            pair, names = (given[i], given[j]), (wanted[i], wanted[j])
            if not _are_crossed(pair, names):
                continue
            others = [(each[i], each[j]) for _, each in calls if len(each) > j]
            is_short = all(len(name) == 1 for name in names)
            is_usual = any(_stem(one) == names[0] and _stem(two) == names[1] for one, two in others)
            if pair[::-1] not in others and (is_usual or not is_short):
                yield CrossedNames(call.lineno, ast.unparse(call.func), pair, names, function_line, False, call.lineno)


def _of_result(
    tree: SourceTree, call: ast.Call, returns: list[ast.Return], tuples: dict[str, NamedTuple]
) -> Iterator[CrossedNames]:
    around = tree.parent(call)
    targets = around.targets if isinstance(around, ast.Assign) and around.value is call else []
    target = targets[0] if len(targets) == 1 else None
    values = [each.value for each in returns]
    if not isinstance(target, ast.Tuple) or len(values) != 1:
        return
    given, wanted = _names(target.elts), _returned(values[0], tuples)
    if len(given) != len(wanted):
        return
    for i, j in combinations(range(len(given)), 2):
        pair, names = (given[i], given[j]), (wanted[i], wanted[j])
        if _are_crossed(pair, names) and all(len(name) > 1 for name in names):
            yield CrossedNames(call.lineno, ast.unparse(call.func), pair, names, returns[0].lineno, True, call.lineno)


def _returned(value: ast.expr | None, tuples: dict[str, NamedTuple]) -> list[str]:
    """The names of a tuple's elements, in order; those of its fields, if it is made by their names."""
    if isinstance(value, ast.Tuple):
        return _names(value.elts)
    made = tuples.get(getattr(value.func, "id", "")) if isinstance(value, ast.Call) else None
    if made is None or not isinstance(value, ast.Call):
        return []
    given = _names(_arguments(value, made.fields))
    # What is given by place may stand under the name of another field: then the tuple itself is made wrongly.
    is_in_order = all(
        not name or name not in made.fields or name == field for name, field in zip(given, made.fields, strict=False)
    )
    return made.fields if is_in_order else []


def _are_crossed(given: Pair, wanted: Pair) -> bool:
    stems, names = tuple(map(_stem, given)), tuple(map(_stem, wanted))
    is_known = all(stems) and all(names) and _EITHER_WAY.isdisjoint(names)
    return is_known and stems[0] != stems[1] and stems == names[::-1]


def _stem(name: str) -> str:
    """A name without its number and what says that it is a batch."""
    name = name.lower().strip("_").rstrip("0123456789").strip("_")
    for affix in _AFFIXES:
        name = name.removesuffix(f"_{affix}").removeprefix(f"{affix}_")
    return name[:-1] if len(name) > len("xs") and name.endswith("s") and not name.endswith("ss") else name


_AFFIXES = ("batch", "b", "mb", "t")


def _names(values: Sequence[ast.expr | None]) -> list[str]:
    """The last part of each name; "" for what has none."""
    return [each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in values]


def _arguments(call: ast.Call, parameters: list[str]) -> list[ast.expr | None]:
    """What a call gives for each parameter, as far as it names one; None for one that it leaves out."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return []
    given: list[ast.expr | None] = [*call.args, *[None] * (len(parameters) - len(call.args))]
    for keyword in call.keywords:
        if keyword.arg in parameters:
            given[parameters.index(keyword.arg)] = keyword.value
    return given


class _Functions:
    """The functions of a file, as far as it is plain which one a call means."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self.all: list[Function] = [each for each in tree.nodes if isinstance(each, FUNCTIONS)]
        self._known: dict[tuple[str, str], list[Function]] = defaultdict(list)
        """By the class that has it, "" for none, and its name."""
        for each in self.all:
            around = tree.parent(each)
            self._known[around.name if isinstance(around, ast.ClassDef) else "", each.name].append(each)
        self.returns: dict[int, list[ast.Return]] = defaultdict(list)
        """By the identity of a function."""
        for node in tree.nodes:
            if isinstance(node, ast.Return):
                self.returns[id(tree.scope(node))].append(node)
        self._classes: dict[str, set[str]] = defaultdict(set)
        """Of each variable: the classes of what it is given; "" for anything else."""
        for target, value in tree.assignments:
            made = value.func if isinstance(value, ast.Call) else None
            self._classes[_names([target])[0]].add(made.id if isinstance(made, ast.Name) else "")

    def called_by(self, call: ast.Call) -> Function | None:
        """A function, a method, or the ``forward()`` of a module that is made in one place."""
        name = _names([call.func])[0]
        if name in self._classes:
            return self._only(self._class_of(name), "forward") or self._only(self._class_of(name), "__call__")
        if isinstance(call.func, ast.Name):
            return self._only("", name)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id == "self":
            around = (each.name for each in self._tree.around(call) if isinstance(each, ast.ClassDef))
            return self._only(next(around, ""), name)
        made_by = self._class_of(_names([owner])[0])
        return self._only(made_by, name) if made_by else None

    def _class_of(self, variable: str) -> str:
        classes = self._classes.get(variable, set())
        return next(iter(classes)) if len(classes) == 1 else ""

    def _only(self, owner: str, name: str) -> Function | None:
        found = self._known.get((owner, name), [])
        return found[0] if len(found) == 1 else None
