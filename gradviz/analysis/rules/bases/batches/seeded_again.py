"""Random numbers that come back in a training, because something seeds the generator that everything draws from."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.copied_parameters import original_of
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    LOOPS,
    SourceTree,
    called_name,
    last_line,
    tree_of,
)
from gradviz.graph.model import CallSite

MIN_NUMBERS = 8
"""Fewer may have the same extremes by chance, or be a setting that is drawn."""
_MIN_TIMES = 2
_SEED_ALL = (r"torch\.manual_seed", "seed_everything", "set_seed", "seed_all")


def rows_of_one_optimizer(flow: Dataflow, rows: list[int]) -> list[int]:
    """The draws of the most steps of one optimizer: a program may train several models from one seed."""
    return max(_rows_by_optimizer(flow, rows).values(), key=len, default=[])


def _rows_by_optimizer(flow: Dataflow, rows: list[int]) -> dict[int | None, list[int]]:
    """By optimizer, the first of the draws before each of its steps."""
    steps = flow.rows_of_kind("step")
    found: dict[int | None, dict[int, int]] = defaultdict(dict)
    for row in rows:
        index = bisect_left(steps, row)
        if index < len(steps):
            found[flow.log.calls[steps[index]].optimizer].setdefault(steps[index], row)
    return {optimizer: [*each.values()] for optimizer, each in found.items()}


def rows_of_repeated_rounds(case: Case, rows: list[int]) -> list[int]:
    """The draws of a training in rounds, as in federated averaging, if most rounds draw what earlier ones drew: in each
    round, optimizers of their own train copies of one model, which learns from them before the next."""
    flow = case.dataflow
    by_optimizer = _rows_by_optimizer(flow, rows)
    parameters = frozenset(number for number, each in enumerate(flow.log.tensors) if each.role == "parameter")
    rounds: dict[int, list[list[int]]] = defaultdict(list)
    for each in by_optimizer.values() if len(by_optimizer) > _MIN_TIMES else ():
        original = _original_that_learns(case, each[0], parameters) if len(each) >= _MIN_DRAWS_OF_ROUND else None
        if original is not None:
            rounds[original].append(each)
    best = max(rounds.values(), key=len, default=[])
    # The extremes of one permutation are those of every other.
    drawn = [tuple(flow.log.calls[row].outputs[0].values for row in each) for each in best]
    is_known = all(None not in each and len(set(each)) > 1 for each in drawn)
    is_repeated = is_known and _MIN_TIMES * len(set(drawn)) <= len(drawn)
    return [row for each in best for row in each] if is_repeated else []


_MIN_DRAWS_OF_ROUND = 3


def _original_that_learns(case: Case, draw: int, parameters: frozenset[int]) -> int | None:
    """The one of these parameters of which what is trained after a draw is a copy, if it gets other values later."""
    histories, flow = case.histories, case.dataflow
    step = flow.log.calls[flow.next_of_kind("step", draw)]
    trained = next((use.tensor for use in step.inputs if use.tensor in histories.trained), None)
    original = None if trained is None else original_of(histories, trained, parameters)
    return original if original is not None and flow.changes(original, draw, len(flow.log.calls)) else None


def different_draws(flow: Dataflow, rows: list[int]) -> int | None:
    """How many different draws there are, if each comes twice or more on average; None if not, or if it is unknown.

    They are of so many numbers that no two are the same by chance.
    """
    values = [flow.log.calls[row].outputs[0].values for row in rows]
    if not values or any(each is None or each.count < MIN_NUMBERS or each.zeros for each in values):
        return None
    different = len(set(values))
    return different if different > 1 and _MIN_TIMES * different <= len(rows) else None


def line_that_seeds_all(case: Case, rows: list[int]) -> Location | None:
    """The line that seeds torch in a function in which something was computed between two draws; in a loop, if any
    does."""
    flow = case.dataflow
    between = {location_of_call(flow, row) for row in range(rows[0] + 1, rows[-1])} - {None}
    found = list[tuple[bool, Location]]()
    for file, number, tree in _seeding_lines(case):
        lines = case.capture.sources[file]
        loops = [range(node.lineno, last_line(node) + 1) for node in tree.nodes if isinstance(node, LOOPS)]
        around = function_around(lines, number)
        ran = (each.line for each in between if each is not None and each.file == file)
        if around is not None and lines[number].startswith((" ", "\t")) and any(line in around for line in ran):
            found.append((any(number in loop for loop in loops), Location(file, number)))
    return max(found, key=lambda each: each[0])[1] if found else None


def line_that_seeds_before(case: Case, row: int) -> Location | None:
    """The line that seeds torch above the one that led to a call, in a loop around both, or in a function that is
    called in a loop; the innermost one."""
    seeds = [(file, number) for file, number, _ in _seeding_lines(case)]
    sites = list(callers(case.dataflow, row))
    for index, site in enumerate(sites):
        around = function_around(case.capture.sources.get(site.file, {}), site.line) or ()
        above = [line for file, line in seeds if file == site.file and line < site.line and line in around]
        is_function = not site.function.rpartition(".")[2].startswith("<")  # No module, no comprehension.
        is_repeated = is_function and any(_loops_around(case, each) for each in sites[index + 1 :])
        in_loop = [line for line in above if is_repeated or any(line in each for each in _loops_around(case, site))]
        if in_loop:
            return Location(site.file, in_loop[-1])
    return None


def line_in_loop(case: Case, row: int) -> Location | None:
    """The innermost line in a loop that led to a call."""
    return next(
        (Location(site.file, site.line) for site in callers(case.dataflow, row) if _loops_around(case, site)), None
    )


def _loops_around(case: Case, site: CallSite) -> list[range]:
    """The lines of each loop and comprehension around a line."""
    nodes = tree_of(case.capture.sources.get(site.file, {})).nodes
    loops = (range(node.lineno, last_line(node) + 1) for node in nodes if isinstance(node, (*LOOPS, *COMPREHENSIONS)))
    return [each for each in loops if site.line in each]


def _seeding_lines(case: Case) -> Iterator[tuple[str, int, SourceTree]]:
    """The lines that seed all random numbers of torch, with their files."""
    for file, lines in case.capture.sources.items():
        tree = tree_of(lines)
        seeds = re.compile(rf"\b({'|'.join((*_SEED_ALL, *_functions_that_seed(tree)))})\(")
        for number, text in lines.items():
            if seeds.search(text) and not text.lstrip().startswith("def "):
                yield file, number, tree


def _functions_that_seed(tree: SourceTree) -> list[str]:
    """The names of functions of the program that do nothing but seed, as a helper for all libraries does."""
    return [
        re.escape(node.name)
        for node in tree.nodes
        if isinstance(node, ast.FunctionDef)
        and any(called_name(each) == "manual_seed" for each in ast.walk(node))
        and not any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node))
    ]
