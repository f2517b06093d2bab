"""Parameters that were made of one tensor without a copy: ``nn.Parameter(table)`` twice, ``table.detach()`` twice.

The record has their memory; the source says on which line the second one is made of it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name


class OneMemory(Struct, frozen=True):
    """Two leaves that train and share the whole of one memory."""

    one: int
    other: int
    row: int
    """The call that made what both are made of."""


_BOTH = 2
_MAKE_LEAVES = frozenset({"Parameter", "detach", "requires_grad_", "data"})


def leaves_of_one_memory(case: Case) -> Iterator[OneMemory]:
    """Trained leaves in one memory that is no larger than each of them: parts of one flat tensor are left out."""
    log, histories = case.dataflow.log, case.histories
    leaves: dict[int, list[int]] = defaultdict(list)
    for each in sorted(histories.trained):
        storage = log.tensors[each].storage
        if storage is not None and log.tensors[each].is_leaf:
            leaves[storage].append(each)
    for sharing in leaves.values():
        if len(sharing) < _BOTH:
            continue
        one, other = sharing[:_BOTH]
        known = [log.tensors[each] for each in case.dataflow.sharing_memory(one)]
        makers = [each.producer for each in known if each.producer is not None and not each.requires_grad]
        sizes = {each.facts.elements for each in known}
        if makers and len(sizes) == 1:
            yield OneMemory(one, other, min(makers))


def line_of_second(case: Case, row: int) -> Location | None:
    """The line that makes the second leaf of what a call made and a name holds; else the line of that call."""
    made = location_of_call(case.dataflow, row)
    for file, tree in own_files(case):
        if made is None or file != made.file:
            continue
        names = {
            target.id
            for node in tree.nodes
            if isinstance(node, ast.Assign) and node.lineno <= made.line <= (node.end_lineno or node.lineno)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        made_of_it = (node for node in tree.nodes if isinstance(node, ast.Call) and _makes_leaf(node, names))
        lines = sorted(node.lineno for node in made_of_it if node.lineno > made.line)
        if len(lines) >= _BOTH:
            return Location(file, lines[1])
    return made


def _makes_leaf(node: ast.Call, names: set[str]) -> bool:
    """Whether a call makes a leaf of what one of the names holds."""
    if called_name(node) not in _MAKE_LEAVES:
        return False
    given = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(given, ast.Name) and given.id in names
