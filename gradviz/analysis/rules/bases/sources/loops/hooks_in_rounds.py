"""Forward hooks that a program registers in each round of a training, and does not remove; and what a loss computes
ever more often from what they keep."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, Key, SourceTree, called_name, names_in, tree_of


class HookInRounds(Struct, frozen=True):
    """A hook that stays when the next one comes."""

    line: Location
    """That of the registration, or of the call that leads to it; else the one that forgets the handles."""
    forgets_handles: bool
    """Whether handles are kept, and then thrown away at this line."""


class GrowingTerm(Struct, frozen=True):
    """A line that computes the same from one tensor ever more often."""

    row: int
    """Its last call."""
    times: int
    """How often in the step of that call."""


_REGISTERS = frozenset({"register_forward_hook", "register_forward_pre_hook"})
_REMOVES = "remove"
_MAX_DEPTH = 3
_MIN_TIMES = 3


def hooks_in_rounds(case: Case) -> Iterator[HookInRounds]:
    """Hooks that loops of a training register, also by functions of the program, in all of its files."""
    texts = chain.from_iterable(lines.values() for lines in case.files_of_program.values())
    if not any("register_forward_" in text for text in texts):  # few have one, and to read all files as one takes time
        return
    for tree, location in _trees(case):
        training = _functions_that_train(tree)
        for node in tree.nodes:
            if not isinstance(node, ast.Call) or called_name(node) not in _REGISTERS:
                continue
            rounds = [*_in_rounds(tree, node, training, _MAX_DEPTH)]
            if rounds and not _is_removed(tree, node, rounds, training):
                forgets = next(_lines_that_forget(tree, node), None)
                lines = [forgets] if forgets is not None else [each.call.lineno for each in rounds]
                yield from (HookInRounds(location(line), forgets is not None) for line in lines)


def growing_terms(flow: Dataflow) -> Iterator[GrowingTerm]:
    """One for each line; in the first step, such a line computes it once."""
    counts: dict[Location | None, dict[int, dict[tuple[object, ...], int]]] = defaultdict(dict)
    last: dict[Location | None, int] = {}
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or len(call.inputs) != 1 or not call.live_inputs or not call.outputs:
            continue
        if flow.log.tensors[call.inputs[0].tensor].role != "tensor" or not flow.has_step_after(row):
            continue
        use, line = call.inputs[0], location_of_call(flow, row)
        of_step = counts[line].setdefault(flow.step_before(row), {})
        key = plain_name(call.function), use.tensor, use.version, *sorted(map(repr, call.scalars.items()))
        of_step[key] = of_step.get(key, 0) + 1
        if of_step[key] > 1:
            last[line] = row
    for line, by_step in counts.items():
        times = [max(each.values()) for each in by_step.values()]
        if times[0] == 1 and times[-1] >= _MIN_TIMES and all(one <= other for one, other in pairwise(times)):
            yield GrowingTerm(last[line], times[-1])


def _trees(case: Case) -> Iterator[tuple[SourceTree, Callable[[int], Location]]]:
    """The program as one, and its files that are no part of that."""
    source = case.program_source
    yield source.tree, source.location
    for file in source.left_out:
        if file in case.own_files:
            yield tree_of(case.own_files[file]), partial(Location, file)


class _Round(Struct, frozen=True):
    """A call that leads to another one in each round of a training."""

    call: ast.Call
    again: ast.AST
    """The loop, or the function, that is a round."""


def _is_removed(tree: SourceTree, call: ast.Call, rounds: list[_Round], training: set[str]) -> bool:
    """Whether the loop or the function around a registration also removes a hook, or holds it in a ``with``; or another
    method of its class does so in the same rounds, not only when all is over."""
    around = next(iter(tree.loops_around(call)), tree.scope(call))
    nodes = [*ast.walk(around)]
    withs = (item.context_expr for node in nodes if isinstance(node, ast.With) for item in node.items)
    if call in withs or any(called_name(node) == _REMOVES for node in nodes):
        return True
    owner = tree.class_around(call)
    calls = (each for each in (ast.walk(owner) if owner is not None else ()) if isinstance(each, ast.Call))
    removals = (each for each in calls if called_name(each) == _REMOVES and not each.args)
    removing = (found.again for each in removals for found in _in_rounds(tree, each, training, _MAX_DEPTH))
    again = [each.again for each in rounds]
    return any(each in again or not {*tree.around(each)}.isdisjoint(again) for each in removing)


def _functions_that_train(tree: SourceTree) -> set[str]:
    """Functions that call ``backward()``, and those that call these."""
    calls = {
        node.name: {called_name(each) for each in ast.walk(node)} for node in tree.nodes if isinstance(node, FUNCTIONS)
    }
    found = {"backward"}
    for _ in range(_MAX_DEPTH):
        found |= {name for name, called in calls.items() if called & found}
    return found


def _in_rounds(tree: SourceTree, call: ast.Call, training: set[str], depth: int) -> Iterator[_Round]:
    """The call itself, if it stands in a loop or in a function that trains; else those of the function around it.

    It is the call itself, too, where a framework of the program calls the function around it, as it does all others
    of this name: ``callback.on_epoch_start(self)``, ``self.fire("on_epoch_start")``.
    """
    around = tree.scope(call)
    loops = (loop for loop in tree.loops_around(call) if any(called_name(each) in training for each in ast.walk(loop)))
    again = next(loops, around if isinstance(around, FUNCTIONS) and around.name in training else None)
    if again is not None:
        yield _Round(call, again)
    elif isinstance(around, FUNCTIONS) and depth:
        is_one_of_several = sum(isinstance(each, FUNCTIONS) and each.name == around.name for each in tree.nodes) > 1
        for node in tree.nodes:
            if isinstance(node, ast.Call) and _is_told_by_text(node, around.name):
                yield from (_Round(call, each.again) for each in _in_rounds(tree, node, training, depth - 1))
            elif isinstance(node, ast.Call) and called_name(node) == around.name:
                is_dispatched = is_one_of_several and _is_of_each(tree, node)
                for each in _in_rounds(tree, node, training, depth - 1):
                    yield _Round(call, each.again) if is_dispatched else each


def _is_told_by_text(call: ast.Call, name: str) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == name for each in call.args)


def _is_of_each(tree: SourceTree, call: ast.Call) -> bool:
    """Whether a method is called of each of several objects: ``for each in callbacks: each.start()``."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(receiver, ast.Name):
        return False
    loops = [each for each in tree.loops_around(call) if isinstance(each, (ast.For, ast.AsyncFor))]
    rounds = [part for each in tree.around(call) if isinstance(each, COMPREHENSIONS) for part in each.generators]
    return any(receiver.id in names_in(each.target) for each in (*loops, *rounds))


def _lines_that_forget(tree: SourceTree, call: ast.Call) -> Iterator[int]:
    """Lines that throw the handles of a registration away: ``self.handles.clear()``, ``self.handles = []``."""
    kept_in = {*_kept_in(tree, call)}
    for node in tree.nodes if kept_in else ():
        forgotten = next((each for each in _forgotten_by(node) if tree.key_of(each) in kept_in), None)
        around = tree.scope(node)
        if forgotten is None or (isinstance(around, FUNCTIONS) and around.name == "__init__"):
            continue
        if not _removes(tree, around, _MAX_DEPTH):
            yield forgotten.lineno


def _kept_in(tree: SourceTree, value: ast.expr) -> Iterator[Key]:
    """Variables that hold a value, or a list or dictionary to which it is added."""
    below: ast.AST = value
    for each in tree.around(value):
        if isinstance(each, ast.Call) and below in each.args and isinstance(each.func, ast.Attribute):
            targets: list[ast.expr] = [each.func.value] if each.func.attr in ("append", "extend", "add") else []
        elif isinstance(each, ast.Assign):
            targets = each.targets
        else:
            targets = [each.target] if isinstance(each, (ast.AugAssign, ast.AnnAssign)) else []
        for target in targets:
            key = tree.key_of(target.value if isinstance(target, ast.Subscript) else target)
            if key is not None:
                yield key
                yield from _lists_with(tree, key)
        if isinstance(each, ast.stmt):
            return
        below = each


def _lists_with(tree: SourceTree, key: Key) -> Iterator[Key]:
    """Lists to which a variable is appended."""
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) == "append" and isinstance(node.func, ast.Attribute):
            held = tree.key_of(node.func.value)
            if held is not None and any(tree.key_of(each) == key for each in node.args):
                yield held


def _forgotten_by(node: ast.AST) -> list[ast.expr]:
    """What a statement or a call empties."""
    if isinstance(node, ast.Call) and called_name(node) == "clear" and isinstance(node.func, ast.Attribute):
        return [node.func.value]
    if isinstance(node, ast.Delete):
        return [each.value for each in node.targets if isinstance(each, ast.Subscript)]
    if isinstance(node, ast.Assign) and _is_empty(node.value):
        return [each for each in node.targets if isinstance(each, ast.Attribute)]
    return []


def _is_empty(node: ast.expr) -> bool:
    is_none = isinstance(node, ast.Constant) and node.value is None
    is_literal = isinstance(node, (ast.List, ast.Tuple)) and not node.elts
    is_made = isinstance(node, ast.Call) and called_name(node) in ("list", "dict") and not node.args
    return is_none or is_literal or is_made or (isinstance(node, ast.Dict) and not node.keys)


def _removes(tree: SourceTree, around: ast.AST, depth: int) -> bool:
    """Whether a function removes hooks, itself or by another one of the program."""
    called = {called_name(each) for each in ast.walk(around)}
    if _REMOVES in called:
        return True
    others = (each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name in called) if depth else ()
    return any(_removes(tree, each, depth - 1) for each in others if each is not around)
