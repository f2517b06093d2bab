"""Modules that a function made once, and gave to several places which asked it for a module each.

A function that keeps its results returns the same module for equal arguments. That it did so is known from the run: a
call that made a module has a row for it, and one that got a kept module has none.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, function_of
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.parameters.modules_of_defaults import Default, calls_that_took, owners_of, paths_above
from gradviz.analysis.rules.bases.sources.kept_factories import (
    KeptFactory,
    asks_of,
    is_inside,
    is_on,
    kept_factories,
)
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.one_object_repeated import is_said_to_be_shared
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, SourceTree, called_name
from gradviz.graph.model import CallSite
from gradviz.graph.modules_and_schedules import RepeatedModule

_MIN_PLACES = 2
_STORES = frozenset({"append", "add_module", "register_module", "setattr"})


class ModuleOfFactory(Struct, frozen=True):
    """A module with parameters that a factory made once, and that several places have which asked for one each."""

    factory: KeptFactory
    kind: str
    """The class of the module."""
    path: str
    parameters: tuple[int, ...]
    places: int
    asked: tuple[str, int]
    """File and line that got the module once more."""
    is_meant: bool
    """Whether the program says that it is shared, or the factory is given nothing, or parts ask that have nothing to
    do with each other."""


class _Ask(Struct, frozen=True, eq=False):
    """An expression that calls a factory."""

    file: str
    tree: SourceTree
    call: ast.Call
    is_first: bool
    """Whether it made the module."""
    is_kept: bool
    """Whether it got a module that was there already."""

    @property
    def is_collected(self) -> bool:
        """Whether it is run many times, and all that it got is put together."""
        around = list(self.tree.around(self.call))
        below: ast.AST = self.call
        for each in around:
            if isinstance(each, ast.stmt):
                break
            if isinstance(each, COMPREHENSIONS) and below is not each.generators[0]:
                return True
            below = each
        statement = self.tree.statement_around(self.call)
        if statement is None or not any(self.tree.loops_around(statement)):
            return False
        target = statement.targets[-1] if isinstance(statement, ast.Assign) else None
        return isinstance(target, ast.Subscript) or any(called_name(each) in _STORES for each in around)


def modules_of_factories(case: Case) -> Iterator[ModuleOfFactory]:
    """Those that an optimizer steps and whose parameters get gradients, each once."""
    files = [*own_files(case)]
    numbers = sorted(case.histories.reached & case.histories.trained)
    factories = [*kept_factories(files)] if numbers else []
    lines = {number: _lines(case, number) for number in numbers} if factories else {}
    for factory in factories:
        made = defaultdict[int, list[int]](list)
        for number, (_, around) in lines.items():
            row = _module_made_in(case, factory, number) if any(_ran(factory, each) for each in around) else None
            if row is not None:
                made[row].append(number)
        calls = {row: line for row in made if (line := _line_that_asked(case, factory, row)) is not None}
        for row in calls:
            found = _given_again(case, factory, row, made[row], calls, files)
            if found is not None:
                yield found


def _lines(case: Case, number: int) -> tuple[int | None, list[CallSite]]:
    made = case.histories.made_by(number)
    return made, [] if made is None else list(callers(case.dataflow, made))


def _ran(factory: KeptFactory, line: CallSite) -> bool:
    """Whether a line ran as a part of a factory, not in a function that only stands in it."""
    name = factory.made_in.name
    return is_inside(factory, line.file, line.line) and name in function_of(line).split(".")


def _module_made_in(case: Case, factory: KeptFactory, number: int) -> int | None:
    """The call that made the outermost module of a parameter in a factory."""
    flow = case.dataflow
    paths = {path for name in case.histories.tensor(number).names for path in paths_above(name)}
    rows = [row for path in paths if (row := flow.row_of_module(path)) is not None]
    own = [row for row in rows if any(_ran(factory, each) for each in callers(flow, row))]
    return min(own, key=lambda each: len(flow.log.calls[each].name or ""), default=None)


def _line_that_asked(case: Case, factory: KeptFactory, row: int) -> CallSite | None:
    """The line that called a factory, which made a module."""
    trees, was_inside = dict(own_files(case)), False
    for line in callers(case.dataflow, row):
        was_inside |= _ran(factory, line)
        tree = trees.get(line.file)
        if was_inside and tree is not None and not is_inside(factory, line.file, line.line):
            statement = tree.statement_at(line.line)
            if statement is not None and any(called_name(each) == factory.name for each in ast.walk(statement)):
                return line
    return None


def _given_again(
    case: Case,
    factory: KeptFactory,
    row: int,
    parameters: list[int],
    calls: dict[int, CallSite],
    files: list[tuple[str, SourceTree]],
) -> ModuleOfFactory | None:
    """A module, if several places have it that asked for one each."""
    asks = [*_asks(case, factory, calls[row], Counter((each.file, each.line) for each in calls.values()), files)]
    first = next((each for each in asks if each.is_first), None)
    if first is None:
        return None
    repeated = _repeated(case, factory, parameters)
    if repeated is not None:
        again = next((each for each in asks if _is_another(first, each)), None)
        if again is None or (repeated.is_of_names and _has_alias(files, factory, repeated.class_name)):
            return None
        return _found(case, factory, row, parameters, repeated.count, first, again)
    owners, _ = owners_of(case, row, parameters)
    again = _asked_by_owners(case, first, asks, owners)
    if again is not None:
        return _found(case, factory, row, parameters, len(set(owners)), first, again)
    again = next((each for each in asks if _is_another(first, each) and _is_beside(first, each)), None)
    uses = 0 if again is None else _uses_for_one_backward(case, parameters[0])
    if again is None or uses < _MIN_PLACES:
        return None
    return _found(case, factory, row, parameters, uses if again is first else _MIN_PLACES, first, again)


def _found(
    case: Case, factory: KeptFactory, row: int, parameters: list[int], places: int, first: _Ask, again: _Ask
) -> ModuleOfFactory:
    call = case.dataflow.log.calls[row]
    body = factory.made_in.body[0]
    is_said = is_said_to_be_shared(factory.tree, body, [factory.name, factory.keeper])
    is_said = is_said or any(
        (statement := each.tree.statement_around(each.call)) is not None
        and is_said_to_be_shared(each.tree, statement, [])
        for each in (first, again)
    )
    is_single = factory.takes_nothing and again is not first
    is_apart = again is not first and not _is_beside(first, again)
    kind, path = call.function.rpartition(".")[2], call.name or ""
    asked = again.file, again.call.lineno
    return ModuleOfFactory(factory, kind, path, tuple(parameters), places, asked, is_said or is_single or is_apart)


def _asks(
    case: Case,
    factory: KeptFactory,
    made: CallSite,
    misses: Counter[tuple[str, int]],
    files: list[tuple[str, SourceTree]],
) -> Iterator[_Ask]:
    """What calls a factory and ran."""
    found = [*asks_of(factory, files)]
    for file, tree, call in found:
        statement = tree.statement_around(call)
        if statement is None:
            continue
        own = [other for _, near, other in found if near is tree and near.statement_around(other) is statement]
        missed = sum(count for (of, line), count in misses.items() if of == file and is_on(statement, line))
        is_first = file == made.file and is_on(statement, made.line)
        # Of several in one statement, the first ones made what was made there.
        is_kept = own.index(call) >= missed
        if missed or _has_run(case, file, tree, call):
            yield _Ask(file, tree, call, is_first and own[0] is call, is_kept)


def _has_run(case: Case, file: str, tree: SourceTree, call: ast.Call) -> bool:
    """Whether the function around an expression has run; what is at the top of a file has."""
    scope = next((each for each in tree.around(call) if isinstance(each, FUNCTIONS)), None)
    if scope is None:
        return True
    return bool(LinesThatRan(case.dataflow, file).rows_in(scope.lineno, scope.end_lineno or scope.lineno))


def _is_another(first: _Ask, other: _Ask) -> bool:
    """Whether an expression asked once more for what the first one made."""
    return first.is_collected if other is first else other.is_kept


def _is_beside(first: _Ask, other: _Ask) -> bool:
    """Whether both stand in one function or class, and what they got has two names."""
    if other is first:
        return True
    if first.tree is not other.tree or _around(first) is not _around(other):
        return False
    one, two = (each.tree.statement_around(each.call) for each in (first, other))
    if isinstance(one, ast.Assign) and isinstance(two, ast.Assign) and one is not two:
        return ast.unparse(one.targets[0]) != ast.unparse(two.targets[0])
    return True


def _around(ask: _Ask) -> ast.AST:
    """The class that an expression is in, else the function, else the file."""
    return ask.tree.class_around(ask.call) or ask.tree.scope(ask.call)


def _repeated(case: Case, factory: KeptFactory, parameters: list[int]) -> RepeatedModule | None:
    """A container or an object that has a module several times, and is no part of what the factory makes."""
    flow = case.dataflow
    sites = flow.log.call_sites
    for each in flow.log.repeated_modules:
        if not each.tensors or not set(each.tensors) <= set(parameters) or each.call_site is None:
            continue
        site, is_part = sites[each.call_site], False
        while True:
            is_part |= _ran(factory, site)
            if site.caller is None:
                break
            site = sites[site.caller]
        if not is_part:
            return each
    return None


def _has_alias(files: list[tuple[str, SourceTree]], factory: KeptFactory, name: str) -> bool:
    """Whether a class gives two attributes what it asked a factory for once: ``self.doc = self.query``."""
    classes = (node for _, tree in files for node in tree.nodes if isinstance(node, ast.ClassDef) and node.name == name)
    for owner in classes:
        assigned = [node for node in ast.walk(owner) if isinstance(node, ast.Assign)]
        asking = [node for node in assigned if any(called_name(each) == factory.name for each in ast.walk(node.value))]
        names = {ast.unparse(each) for node in asking for each in node.targets}
        for node in assigned:
            value = node.value
            branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            if any(isinstance(each, ast.Attribute) and ast.unparse(each) in names for each in branches):
                return True
        if any(sum(isinstance(each, ast.Attribute) for each in node.targets) > 1 for node in asking):
            return True
    return False


def _asked_by_owners(case: Case, first: _Ask, asks: list[_Ask], owners: list[str]) -> _Ask | None:
    """The expression by which several objects have got one module, each on its own."""
    flow = case.dataflow
    rows = {row for each in owners if (row := flow.row_of_module(each)) is not None}
    if len(rows) < _MIN_PLACES:
        return None
    function = next((each for each in first.tree.around(first.call) if isinstance(each, FUNCTIONS)), None)
    if function is not None:
        asking = Default(first.file, first.tree, first.call, function, "")
        if calls_that_took(flow, asking, sorted(rows)) >= _MIN_PLACES:
            return first
    kinds = {_class_made(flow, row) for row in rows}
    return next((each for each in asks if _is_another(first, each) and _is_of(each, kinds)), None)


def _is_of(ask: _Ask, kinds: set[str]) -> bool:
    """Whether an expression is in one of these classes, or gives what it gets to one of them."""
    return any(
        (isinstance(each, ast.ClassDef) and each.name in kinds) or called_name(each) in kinds
        for each in ask.tree.around(ask.call)
    )


def _class_made(flow: Dataflow, row: int) -> str:
    return flow.log.calls[row].function.rpartition(".")[2]


def _uses_for_one_backward(case: Case, number: int) -> int:
    """How many calls compute something from a parameter that a backward call depends on; the most of all lines."""
    flow, most = case.dataflow, 0
    for backward in case.histories.last_backward_of_each_line:
        if number in case.histories.reached_by[backward]:
            since = flow.step_before(backward)
            above = {
                row for use in flow.log.calls[backward].roots for row in flow.ancestors(use.tensor, backward, since)
            }
            rows = [row for row in flow.users(number, since) if row in above and flow.log.calls[row].node_count]
            most = max(most, len(rows))
    return most
