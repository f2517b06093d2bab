"""Parts of a model that has more of them than a program trains: outputs that it leaves, heads that it does not choose.

>>> line = "return self.heads[task](h) + self.base['all'](h)"
>>> [ast.unparse(each) for each in _choices(SourceTree({1: "def forward(self, h, task):", 2: f"    {line}"}), 2)]
['self.heads[task]']
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.unused_parameters import UnusedParameters
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line, tree_of
from gradviz.graph.model import ModuleScope


def is_output_left(case: Case, group: UnusedParameters) -> bool:
    """Whether a module of the program returned the result beside others, in a dict or list, and the program never took
    it: no variable has its name, and nothing was computed from it."""
    flow = case.dataflow
    if group.last is None:
        return False
    call = flow.log.calls[group.last]
    results = [flow.log.tensors[use.tensor] for use in call.outputs if use.requires_grad]
    is_returned = _is_returned(case, group.last)
    return any(True for _ in _own_modules(case, call.scope)) and any(
        (is_returned or (each.alive_after is not None and each.alive_after >= group.last))
        and (each.holder is None or not each.holder.is_in_module)
        and not any(name.isidentifier() and not name.startswith("_") for name in each.names)
        for each in results
    )


def is_scored(case: Case, group: UnusedParameters) -> bool:
    """Whether the program goes on from the same result where gradients are off: what it scores, it means to train."""
    flow, location = case.dataflow, None if group.last is None else location_of_call(case.dataflow, group.last)
    if location is None:
        return False
    rows = (row for number in group.tensors for row in flow.users(number))
    waiting = [row for row in rows if flow.log.calls[row].grad_mode != "enabled"]
    seen = set[int]()
    while waiting:
        row = waiting.pop()
        if row in seen or location_of_call(flow, row) != location:
            continue
        seen.add(row)
        users = [user for use in flow.log.calls[row].outputs for user in flow.users(use.tensor, row)]
        # What only the next layers of the same line take goes no further.
        if any(location_of_call(flow, user) != location for user in users):
            return True
        waiting += users
    return False


def loop_that_ends_early(case: Case, group: UnusedParameters) -> Location | None:
    """The loop over ``zip()`` in which the other results of the same line are used: it ends with the shortest list."""
    flow, location = case.dataflow, None if group.last is None else location_of_call(case.dataflow, group.last)
    since = flow.step_before(group.last or 0)
    for row in range(max(since, 0), group.last or 0):
        call = flow.log.calls[row]
        if not call.outputs or not call.outputs[0].requires_grad or location_of_call(flow, row) != location:
            continue
        for user in flow.users(call.outputs[0].tensor, row):
            for line in callers(flow, user):
                loop = _zip_around(case, line.file, line.line)
                if loop is not None:
                    return Location(line.file, loop)
    return None


def _zip_around(case: Case, file: str, line: int) -> int | None:
    lines = case.capture.sources.get(file)
    loops = (node for node in tree_of(lines).nodes if isinstance(node, (ast.For, ast.comprehension))) if lines else ()
    for loop in loops:
        last = last_line(loop) if isinstance(loop, ast.For) else loop.iter.lineno
        if called_name(loop.iter) == "zip" and loop.iter.lineno <= line <= last:
            return loop.iter.lineno
    return None


def _is_returned(case: Case, row: int) -> bool:
    """Whether a call stands in a ``return``."""
    location = location_of_call(case.dataflow, row)
    lines = None if location is None else case.capture.sources.get(location.file)
    if location is None or not lines:
        return False
    returns = (node for node in tree_of(lines).nodes if isinstance(node, ast.Return))
    return any(node.lineno <= location.line <= last_line(node) for node in returns)


def _own_modules(case: Case, scope: int | None) -> Iterator[ModuleScope]:
    """The modules around a call whose classes are not torch's."""
    flow = case.dataflow
    while scope is not None:
        found = flow.log.scopes[scope]
        made = flow.row_of_module(found.path)
        if made is None or not flow.log.calls[made].function.startswith("torch."):
            yield found
        scope = found.parent


def is_not_chosen(case: Case, group: UnusedParameters) -> bool:
    """Whether they belong to elements of a ``ModuleDict`` or ``ModuleList`` of which a function takes the one that its
    argument says."""
    return all(_has_chosen_sibling(case, number) for number in group.tensors)


def is_used_by_another_model(case: Case, group: UnusedParameters) -> bool:
    """Whether another model of the same class computes with its own: a program that compares settings makes one model
    for each, with parts that only some of them need."""
    histories = case.histories
    used = {_place(case, number) for number in histories.log.parameters if histories.forward_uses(number)} - {None}
    return all(_place(case, number) in used for number in group.tensors)


def _place(case: Case, number: int) -> tuple[str, Location] | None:
    """The path of a parameter in its model, and the line that made it, which parameters of other models share."""
    path = case.histories.name(number).partition(".")[2]
    made = location_of_line(case.histories.line_where_made(number))
    return (path, made) if path and made is not None else None


def _has_chosen_sibling(case: Case, number: int) -> bool:
    histories = case.histories
    parts = histories.name(number).split(".")
    for end in range(1, len(parts) - 1):
        path = ".".join(parts[:end])
        own = ".".join(parts[: end + 1])
        uses = [
            rows[-1]
            for each in histories.parameters_below(path)
            if not histories.name(each).startswith(f"{own}.") and (rows := histories.forward_uses(each))
        ]
        if any(_is_chosen_there(case, row, parts[end - 1]) for row in uses):
            return True
    return False


def _is_chosen_there(case: Case, row: int, container: str) -> bool:
    location = location_of_call(case.dataflow, row)
    lines = None if location is None else case.capture.sources.get(location.file)
    if location is None or not lines:
        return False
    owners = (choice.value for choice in _choices(tree_of(lines), location.line))
    return any(isinstance(owner, ast.Attribute) and owner.attr == container for owner in owners)


def _choices(tree: SourceTree, line: int) -> Iterator[ast.Subscript]:
    """Elements that the code at a line takes by arguments of its function."""
    for node in tree.nodes:
        if isinstance(node, ast.Subscript) and node.lineno <= line <= last_line(node):
            read = [each for each in ast.walk(node.slice) if isinstance(each, ast.Name)]
            scope = tree.scope(node)
            given = {each.arg for each in ast.walk(getattr(scope, "args", scope)) if isinstance(each, ast.arg)}
            if read and all(each.id in given for each in read):
                yield node
