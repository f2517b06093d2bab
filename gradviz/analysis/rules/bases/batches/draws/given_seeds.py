"""Seeds that a function is given: the line of the loop that gives the same one each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import program_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    SourceTree,
    called_name,
    defaults_of,
    given_to,
    last_line,
    last_name,
    names_in,
    parameters_of,
    tree_of,
)
from gradviz.graph.model import CallSite

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def line_that_gives_the_seed(case: Case, row: int, seeding: Location) -> Location | None:
    """The line in a loop whose call gives the seed, through functions that only pass it on, or split it; None where the
    seed is a number, or is kept or made in a function on the way, or where no loop is found.

    Args:
        row: the draw.
        seeding: the line that seeds its generator, in one of the functions that led to the draw.
    """
    sources, sites = case.capture.sources, list(callers(case.dataflow, row))
    begin = next(
        (place for place, site in enumerate(sites) if _is_in_one_function(case, site.file, site.line, seeding)), None
    )
    if begin is None:
        return None
    tree = tree_of(sources[seeding.file])
    given = {name for call in _calls_on(tree, seeding.line, _SEEDS) for each in call.args for name in names_in(each)}
    function = _function_around(tree, seeding.line)
    for outer in sites[begin + 1 :]:
        passed = set() if function is None else _parameters_behind(function, given)
        if function is None or not passed or outer.file not in sources:
            return None
        tree = tree_of(sources[outer.file])
        calls = list(_calls_on(tree, outer.line, frozenset({function.name})))
        values = [value for call in calls for place, value in given_to(function, call) if place in passed]
        given = set().union(*map(names_in, values))
        if any(next(tree.loops_around(call), None) is not None for call in calls):
            return Location(outer.file, outer.line) if given else None
        function = _function_around(tree, outer.line)
    return None


def takes_generator(case: Case, drawn: Location) -> bool:
    """Whether a line gives its draw a generator, which its function may be given or not: then any call of the program
    has to give one."""
    tree = tree_of(case.capture.sources.get(drawn.file, {}))
    if "generator=" not in (case.source_line(drawn) or ""):
        return False
    statement, function = tree.statement_at(drawn.line), _function_around(tree, drawn.line)
    calls = [each for each in (() if statement is None else ast.walk(statement)) if isinstance(each, ast.Call)]
    names = {last_name(each.value) for call in calls for each in call.keywords if each.arg == "generator"}
    optional = {name for name, value in defaults_of(function) if _is_none(value)} if function is not None else set()
    if function is None or not names or not names <= optional:
        return True
    nodes = (node for _, each in program_files(case) for node in each.nodes)
    uses = (call for call in nodes if isinstance(call, ast.Call) and called_name(call) == function.name)
    return any(name in names for call in uses for name, _ in given_to(function, call))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def line_that_gives_one_seed(case: Case, draw: int) -> Location | None:
    """The line of the innermost loop or comprehension around the function that seeds, if it gives the same seed at each
    turn; that of the seed itself, if the function gets none. None if a turn changes it, or calls something for it."""
    sources, sites = case.capture.sources, list(callers(case.dataflow, draw))
    for place, site in enumerate(sites):
        tree = tree_of(sources.get(site.file, {}))
        function = _function_around(tree, site.line)
        if function is None:
            continue
        for seed in ast.walk(function):
            is_above = isinstance(seed, ast.Call) and called_name(seed) in _SEED_ALL and seed.lineno <= site.line
            if isinstance(seed, ast.Call) and is_above and (line := _of_turns(case, place, sites, function, seed)):
                return line
    return None


def _of_turns(
    case: Case, place: int, sites: list[CallSite], function: _Function | None, seed: ast.Call
) -> Location | None:
    """The line that repeats a function with one seed, if all lines on the way call functions by their names."""
    seeding, values = Location(sites[place].file, seed.lineno), list(seed.args)
    for outer in sites[place + 1 :]:
        if any(isinstance(part, ast.Call) for each in values for part in ast.walk(each)):
            return None
        given = set[str]().union(*map(names_in, values))
        passed = set() if function is None else _parameters_behind(function, given) - {"self"}
        tree = tree_of(case.capture.sources.get(outer.file, {}))
        calls = [] if function is None else list(_calls_on(tree, outer.line, frozenset({function.name})))
        if function is not None and calls:
            values = [value for call in calls for name, value in given_to(function, call) if name in passed]
            repeats = next(_repeats(tree, calls[-1]), None)
            if repeats is not None:
                is_fixed = not any(names_in(each) & _changed_by(repeats) for each in values)
                return (Location(outer.file, outer.line) if values else seeding) if is_fixed else None
            function = _function_around(tree, outer.line)
        elif outer.function.rpartition(".")[2] != "<listcomp>":
            return None
    return None


def _repeats(tree: SourceTree, call: ast.Call) -> Iterator[ast.AST]:
    """The comprehensions and loops that repeat a call, innermost first."""
    below: ast.AST = call
    for each in tree.around(call):
        if isinstance(each, COMPREHENSIONS) and below is not each.generators[0]:
            yield each
        below = each
    yield from tree.loops_around(call)


def _changed_by(loop: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


_SEEDS = frozenset({"manual_seed", "seed"})
_SEED_ALL = frozenset({"manual_seed", "seed_everything", "set_seed", "seed_all"})
_MOST_ASSIGNED = 20


def _is_in_one_function(case: Case, file: str, line: int, seeding: Location) -> bool:
    if file != seeding.file or file not in case.capture.sources:
        return False
    tree = tree_of(case.capture.sources[file])
    around = _function_around(tree, line)
    return around is not None and around is _function_around(tree, seeding.line)


def _function_around(tree: SourceTree, line: int) -> _Function | None:
    found = (each for each in tree.statements_at(line) if isinstance(each, FUNCTIONS))
    return max(found, key=lambda each: each.lineno, default=None)


def _calls_on(tree: SourceTree, line: int, names: frozenset[str]) -> list[ast.Call]:
    return [
        each
        for each in tree.nodes
        if isinstance(each, ast.Call) and called_name(each) in names and each.lineno <= line <= last_line(each)
    ]


def _parameters_behind(function: _Function, names: set[str]) -> set[str]:
    """The parameters of a function that some of its variables are, or are computed from."""
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    known, waiting = set[str](), list(names)
    while waiting and len(known) < _MOST_ASSIGNED:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            for each in assigned:
                if any(name in names_in(target) for target in each.targets):
                    waiting += names_in(each.value)
    return known.intersection(parameters_of(function))
