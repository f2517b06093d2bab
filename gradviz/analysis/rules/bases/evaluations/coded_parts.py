"""Categories that one function turns into numbers, once for the data of the training and once for those of a score."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.source_tree import called_name, last_line
from gradviz.analysis.rules.bases.unread_names import FUNCTIONS

_LOOKUP = "torch.nn.functional.embedding"
_INTO_TORCH = frozenset({"from_numpy", "tensor", "as_tensor"})
_MAX_CALLS = 16
_MAX_ROWS = 64


class CodedParts(Struct, frozen=True):
    """A function that numbers the values which occur in what it is given, for two parts of the data."""

    coded: Location
    """The line that numbers them."""
    table: int
    """The weight of the embedding that looks both up."""


def coded_parts(case: Case) -> Iterator[CodedParts]:
    """One for each embedding that is trained with the numbers of one call of such a function, and scored with those of
    another one."""
    trained: dict[int, set[int]] = {}
    scored: dict[int, set[int]] = {}
    rows = case.dataflow.rows_of_function(_LOOKUP) if case.histories.reached_by else ()
    for row in rows:
        call = case.dataflow.log.calls[row]
        table, group = call.inputs[-1].tensor, trained if call.grad_mode == "enabled" else scored
        known = group.setdefault(table, set())
        if table in case.histories.trained and len(known) < _MAX_ROWS and (made := _made_of(case, row)) is not None:
            known.add(made)
    for table in sorted(trained.keys() & scored.keys()):
        lines = {location_of_call(case.dataflow, row) for row in trained[table] | scored[table]}
        line = lines.pop() if len(lines) == 1 and scored[table] - trained[table] else None
        coded = None if line is None else _line_that_codes(case, line)
        if coded is not None:
            yield CodedParts(coded, table)


def _made_of(case: Case, row: int) -> int | None:
    """The first call of torch with the numbers of a lookup: what brings arrays into torch is not noted itself."""
    oldest = None
    for made, call in case.dataflow.makers(case.dataflow.log.calls[row].inputs[0].tensor, row, _MAX_CALLS):
        oldest = made if len(call.inputs) <= 1 or plain_name(call.function) == "stack" else None
    return oldest


def _line_that_codes(case: Case, line: Location) -> Location | None:
    """The line of the same function that numbers values of its argument, if a call of a line gets the numbers."""
    tree = dict(own_files(case)).get(line.file)
    for call in tree.nodes if tree is not None else ():
        if tree is None or not isinstance(call, ast.Call) or not call.lineno <= line.line <= last_line(call):
            continue
        function = next((each for each in tree.around(call) if isinstance(each, FUNCTIONS)), None)
        if function is None or called_name(call) not in _INTO_TORCH:
            continue
        names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
        own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)} - {"self"}
        for target, value in tree.assignments:
            numbers = target.elts[_place_of_numbers(value) :] if isinstance(target, ast.Tuple) else [target]
            is_given = any(
                isinstance(node, ast.Name) and node.id in names for each in numbers for node in ast.walk(each)
            )
            if is_given and tree.scope(target) is function and _numbers_values(value, own):
                return Location(line.file, value.lineno)
    return None


def _place_of_numbers(value: ast.expr) -> int:
    """Where ``values, numbers = np.unique(x, return_inverse=True)`` has the numbers: behind the values themselves,
    which are the same in all parts."""
    return int(called_name(value) == "unique")


def _numbers_values(value: ast.expr, given: set[str]) -> bool:
    """``np.unique(x, return_inverse=True)``, ``pd.factorize(x)``, ``x.astype("category").cat.codes``, of an argument of
    the function."""
    is_of_argument = any(isinstance(node, ast.Name) and node.id in given for node in ast.walk(value))
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    is_numbered = any(
        called_name(call) == "factorize"
        or (called_name(call) == "unique" and any(each.arg == "return_inverse" for each in call.keywords))
        for call in calls
    )
    codes = (node for node in ast.walk(value) if isinstance(node, ast.Attribute) and node.attr == "codes")
    return is_of_argument and (is_numbered or any(ast.unparse(node.value).endswith(".cat") for node in codes))
