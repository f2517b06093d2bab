"""Ratios ``exp(new - old)`` whose two sides a function was given in each other's place: the old one has a gradient.

>>> [old_of(one, other) for one, other in (("logp_new", "logp_old"), ("old_logp", "logp"), ("old", "new"), ("a", "b"))]
['logp_old', 'old_logp', 'old', None]
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, parameters_of
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite

_BOTH = 2
_OLD = re.compile(r"(?:^|_)(?:old|prev|previous|behaviou?r|stored|rollout)(?=_|$)")
_NEW = re.compile(r"(?:^|_)(?:new|cur|curr|current)(?=_|$)")


class TurnedRatio(Struct, frozen=True):
    """One line with such a ratio."""

    row: int
    """The last call that subtracts, or divides."""
    old: str
    new: str
    """Their names in the function."""
    line: CallSite
    """The line that called the function."""
    live: int
    """The tensor with a gradient that it got as the old one."""


def old_of(one: str, other: str) -> str | None:
    """Which of two names is that of an old value, if the other one is the same without it, or is called new."""
    for old, new in ((one, other), (other, one)):
        stem, rest = _OLD.sub("", old.lower()), new.lower()
        if stem != old.lower() and not _OLD.search(rest) and stem.strip("_") == _NEW.sub("", rest).strip("_"):
            return old
    return None


def turned_ratios(flow: Dataflow, file: str, tree: SourceTree) -> Iterator[TurnedRatio]:
    """One for each line of a file, if all ratios of that line are so."""
    named = _differences(tree)
    found: dict[int, TurnedRatio] = {}
    healthy = set[int]()
    for row, call in enumerate(flow.log.calls) if named else ():
        if len(call.inputs) != _BOTH or len(call.live_inputs) != 1 or not _is_ratio(flow, row, call):
            continue
        line = flow.line_of(row)
        names = None if line is None or line.file != file else named.get(line.line)
        if names is None or line is None:
            continue
        old = old_of(*names)
        is_left = call.live_inputs[0] is call.inputs[0]
        if old is None or names[0 if is_left else 1] != old:
            healthy.add(line.line)
            continue
        caller = next((each for each in callers(flow, row) if each.function != line.function), None)
        if caller is not None and flow.has_step_after(row):
            new = names[1 if is_left else 0]
            found[line.line] = TurnedRatio(row, old, new, caller, call.live_inputs[0].tensor)
    yield from (each for line, each in found.items() if line not in healthy)


def _is_ratio(flow: Dataflow, row: int, call: Call) -> bool:
    name = plain_name(call.function)
    if name == "div":
        return True
    users = flow.users(call.outputs[0].tensor, row) if name == "sub" and call.outputs else ()
    return any(plain_name(flow.log.calls[user].function) == "exp" for user in users)


def _differences(tree: SourceTree) -> dict[int, tuple[str, str]]:
    """By line: the two parameters of the function around that it subtracts or divides, if it does so once."""
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for node in tree.nodes:
        sides: list[ast.expr] = []
        if not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.Div)):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and called_name(node) in ("sub", "subtract", "div") and node.args:
            is_method = isinstance(node.func, ast.Attribute) and len(node.args) == 1
            sides = [node.func.value, *node.args] if is_method and isinstance(node.func, ast.Attribute) else node.args
        names = [each.id for each in sides if isinstance(each, ast.Name)]
        scope = tree.scope(node)
        if len(names) == _BOTH and isinstance(scope, FUNCTIONS) and set(names) <= set(parameters_of(scope)):
            found[node.lineno].append((names[0], names[1]))
    return {line: pairs[0] for line, pairs in found.items() if len(pairs) == 1}
