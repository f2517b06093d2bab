"""Whether a number that was read from a tensor can have come back: no name leads from what prints it to the rest.

>>> tree = SourceTree(dict(enumerate('''for x in data:
...     out = model(x)
...     print(out.mean().item())
...     size = out.norm().item()
...     kept.append(2 * size)
...     sigma = 0.9 ** step / 3
...     loss = out.sum() + sigma * kept[-1]
... '''.splitlines(), start=1)))
>>> [sorted(_given_from(tree.module, tree.statement_at(line))) for line in (3, 4, 6)]
[[], ['kept', 'loss', 'size'], ['loss', 'sigma']]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

from gradviz.analysis.dataflow.values.outside_torch import Reentry
from gradviz.analysis.finding import SourceText
from gradviz.analysis.sources.named_by_statements import MAX_ROUNDS, bound_by, read_by, root_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, tree_of
from gradviz.graph.call_log import CallLog
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import own_lines_around

_GUESSED = ("order", "number")


def given_on(
    found: Mapping[int, tuple[Reentry, ...]], log: CallLog, sources: SourceText
) -> dict[int, tuple[Reentry, ...]]:
    """The values from outside of torch by call, without guesses that no name in the source supports."""
    names = _NamesBetween(log, sources)
    kept = {row: tuple(each for each in entries if names.lead(each, row)) for row, entries in found.items()}
    return {row: entries for row, entries in kept.items() if entries}


class _NamesBetween:
    """The names from the lines where numbers and arrays left torch to those where they may have come back."""

    def __init__(self, log: CallLog, sources: SourceText) -> None:
        self._log = log
        self._sources = sources
        self._led = cache(self._lead)

    def lead(self, reentry: Reentry, into: int) -> bool:
        """Whether names lead from the line where a value left to the call into which it may have come back.

        True as well where that cannot be told, as it is kept in an object or no source is known, and where its value
        proves that it came back.
        """
        calls = self._log.calls
        return reentry.certainty not in _GUESSED or self._led(calls[reentry.exit].call_site, calls[into].call_site)

    def _lead(self, exit_site: int | None, entry_site: int | None) -> bool:
        exits, entries = self._own_lines(exit_site), self._own_lines(entry_site)
        for left in exits:
            lines = self._sources.get(left.file)
            tree = tree_of(lines) if lines else None
            statement = None if tree is None else tree.statement_at(left.line)
            if tree is None or statement is None:
                return True
            scope = tree.scope(statement)
            given = _given_from(scope, statement)
            there = next((each for each in entries if (each.file, each.function) == (left.file, left.function)), None)
            if there is not None and _reads(tree, there, statement, given):
                return True
            if isinstance(scope, FUNCTIONS):
                if not given.isdisjoint(_not_its_own(scope)):
                    return True
                if not any(_returns(each, given, statement) for each in ast.walk(scope)):
                    return False
        return not exits or not entries

    def _own_lines(self, site: int | None) -> list[CallSite]:
        """The user's own lines from which a call was made, innermost first."""
        sites = self._log.call_sites
        return [sites[each] for each in own_lines_around(sites, site)]


def _reads(tree: SourceTree, there: CallSite, left: ast.stmt, given: set[str]) -> bool:
    """Whether the statement of a line is the one where the number left, or names what it was given to."""
    statement = tree.statement_at(there.line)
    return statement is None or statement is left or not given.isdisjoint(read_by(statement))


def _returns(node: ast.AST, given: set[str], left: ast.stmt) -> bool:
    if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
        return node is left or not given.isdisjoint(read_by(node))
    return False


def _not_its_own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names in a function that others may see the objects of: its parameters, and what it does not bind."""
    nodes = list(ast.walk(function))
    bound = {each.id for each in nodes if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    shared = {name for each in nodes if isinstance(each, (ast.Global, ast.Nonlocal)) for name in each.names}
    given = {each.arg for each in nodes if isinstance(each, ast.arg)}
    named = {each.id for each in nodes if isinstance(each, ast.Name)}
    return (named - bound) | shared | given


def _given_from(scope: ast.AST, statement: ast.stmt) -> set[str]:
    """The names to which a statement gives its value, and those that others are computed from it."""
    given = set(_given_by(statement))
    for _ in range(MAX_ROUNDS if given else 0):
        before = len(given)
        for read, names in _statements_in(scope):
            if not given.isdisjoint(read):
                given |= names
        if len(given) == before:
            break
    return given


@lru_cache(maxsize=16)
def _statements_in(scope: ast.AST) -> list[tuple[set[str], set[str]]]:
    """For each statement in a function or a file: what it reads, and to which names it gives that on."""
    statements = [each for each in ast.walk(scope) if isinstance(each, ast.stmt) and each is not scope]
    return [
        (read_by(each, whole=True), {each.name})  # It sees the names around it.
        if isinstance(each, FUNCTIONS)
        else (read_by(each), set(_given_by(each)))
        for each in statements
    ]


def _given_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds, or whose elements or attributes it sets; for a call alone, the object whose
    method gets the value, and the objects beside it."""
    yield from bound_by(statement)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and called_name(call) != "print":
        for argument in (*call.args, *(each.value for each in call.keywords)):
            yield from root_of(argument)
        if isinstance(call.func, ast.Attribute):
            yield from root_of(call.func)
