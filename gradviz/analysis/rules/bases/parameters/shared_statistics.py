"""Batch normalizations that several modules of one class have, though each of these has layers of its own.

What the layers return has another mean and another spread at each of them, and the running statistics are one mixture.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.one_object_repeated import is_said_to_be_shared
from gradviz.analysis.rules.bases.sources.own_files import own_files

_STATISTICS = "running_mean"
_MIN_OWNERS = 2


class SharedStatistics(Struct, frozen=True):
    """One batch normalization of several modules."""

    kind: str
    """Its class."""
    owner: str
    """The class of the modules that have it."""
    attribute: str
    taken: str
    """The source of what the class sets the attribute to."""
    paths: tuple[str, ...]
    parameters: tuple[int, ...]
    location: Location | None
    """Where the class takes it, or else where one of the modules that have it was made."""
    is_meant: bool
    """Whether the program says that it is shared."""


def shared_statistics(case: Case) -> Iterator[SharedStatistics]:
    """Those of modules of the program's own that an optimizer trains."""
    flow = case.dataflow
    for buffer in flow.log.tensors:
        if buffer.role != "buffer" or len(buffer.names) < _MIN_OWNERS:
            continue
        paths = [name.removesuffix(f".{_STATISTICS}") for name in buffer.names if name.endswith(f".{_STATISTICS}")]
        row = next((row for path in paths if (row := flow.row_of_module(path)) is not None), None)
        owners = {path.rpartition(".")[0]: path.rpartition(".")[2] for path in paths}
        rows = [each for owner in owners if (each := flow.row_of_module(owner)) is not None]
        classes, attributes = {flow.log.calls[each].function for each in rows}, {*owners.values()}
        if row is None or len({*rows}) < _MIN_OWNERS or len(classes) > 1 or len(attributes) > 1:
            continue
        function, attribute = classes.pop(), attributes.pop()
        if not function.startswith("torch.") and all(_has_layers_of_its_own(case, owner) for owner in owners):
            owner, kind = (each.rpartition(".")[2] for each in (function, flow.log.calls[row].function))
            parameters = [number for path in paths[:1] for number in _trained_below(case, path)]
            location, taken, is_meant = _where_taken(case, owner, attribute)
            location = location or location_of_call(flow, rows[-1])
            yield SharedStatistics(kind, owner, attribute, taken, tuple(paths), tuple(parameters), location, is_meant)


def _trained_below(case: Case, path: str) -> Iterator[int]:
    for number in sorted(case.histories.trained & case.histories.reached):
        if any(name.startswith(f"{path}.") for name in case.histories.tensor(number).names):
            yield number


def _has_layers_of_its_own(case: Case, owner: str) -> bool:
    """Whether it trains parameters that no other module has."""
    names = (case.histories.tensor(number).names for number in _trained_below(case, owner))
    return any(all(name.startswith(f"{owner}.") for name in each) for each in names)


def _where_taken(case: Case, owner: str, attribute: str) -> tuple[Location | None, str, bool]:
    """Where a class of the program sets one of its attributes, to what, and whether it says there that this is
    shared."""
    for file, tree in own_files(case):
        classes = (node for node in tree.nodes if isinstance(node, ast.ClassDef) and node.name == owner)
        for node in (inner for each in classes for inner in ast.walk(each) if isinstance(inner, ast.Assign)):
            if any(isinstance(target, ast.Attribute) and target.attr == attribute for target in node.targets):
                is_meant = is_said_to_be_shared(tree, node, [attribute])
                return Location(file, node.lineno), ast.unparse(node.value), is_meant
    return None, attribute, False
