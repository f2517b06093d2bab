"""Changes of gradients in a hook that runs after the step of an optimizer, when the step has used them already.

The record has what hooks do as part of the step, before or after it; the source says which hook was registered where.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.gradients.gradient_changes import around, can_clip
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name


class ChangeAfterStep(Struct, frozen=True):
    """A line that registers a hook, and what the hook changes in vain."""

    registered: Location
    call: int
    """The first change."""
    step: int
    times: int
    tensors: tuple[int, ...]


_AFTER = frozenset({"register_step_post_hook", "register_optimizer_step_post_hook"})
_BEFORE = frozenset({"register_step_pre_hook", "register_optimizer_step_pre_hook"})
_MIN_TIMES = 2


def changes_in_hooks_after_steps(case: Case) -> Iterator[ChangeAfterStep]:
    """One for each line that registers a hook whose changes of gradients nobody uses."""
    hooks = list(_registered(case, _AFTER))
    if not hooks:
        return
    has_others = any(True for _ in _registered(case, _BEFORE))
    found: dict[Location, list[tuple[int, int, int]]] = defaultdict(list)
    for row, step, leaf in _changes_in_steps(case):
        line = _hook_of(case, row, hooks, is_sure=len(hooks) == 1 and not has_others)
        if line is not None:
            found[line].append((row, step, leaf))
    for line, changes in found.items():
        steps = {step for _, step, _ in changes}
        if len(steps) >= _MIN_TIMES:
            leaves = tuple(sorted({leaf for _, _, leaf in changes}))
            yield ChangeAfterStep(line, changes[0][0], changes[0][1], len(steps), leaves)


def _changes_in_steps(case: Case) -> Iterator[tuple[int, int, int]]:
    """Calls inside a step that multiply or clamp gradients of the optimizer, which are cleared next."""
    log, events = case.dataflow.log, case.gradient_events.events
    with_closure = {log.calls[row].inside for row in case.histories.backward_calls}
    for row, call in enumerate(log.calls):
        step = call.inside
        if step is None or log.calls[step].kind != "step" or step in with_closure or call.kind != "operation":
            continue
        for use in call.changed if can_clip(call.function) else ():
            leaf = log.tensors[use.tensor].gradient_of
            # What is left for the next backward to add to is used once more.
            if leaf is not None and around(events.get(leaf, []), row)[1] in (None, "clear"):
                yield row, step, leaf


def _registered(case: Case, names: frozenset[str]) -> Iterator[tuple[Location, set[str]]]:
    """The lines that register such hooks, with the names that stand for the hook."""
    for file, tree in own_files(case):
        for node in tree.nodes:
            if isinstance(node, ast.Call) and called_name(node) in names and node.args:
                inner = list(ast.walk(node.args[0]))
                words = {each.id for each in inner if isinstance(each, ast.Name)}
                words |= {each.attr for each in inner if isinstance(each, ast.Attribute)}
                words |= {"<lambda>" for each in inner if isinstance(each, ast.Lambda)}
                yield Location(file, node.lineno), words


def _hook_of(case: Case, row: int, hooks: list[tuple[Location, set[str]]], *, is_sure: bool) -> Location | None:
    """The line that registered the hook in which a call ran, by the name of its function; the only one there is."""
    functions = {word for line in callers(case.dataflow, row) for word in line.function.split(".")}
    named = [line for line, words in hooks if words & functions]
    return named[0] if len(named) == 1 else hooks[0][0] if is_sure else None
