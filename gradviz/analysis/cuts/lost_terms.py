"""Losses that a program computes, and that nothing uses: their variable is assigned again, or they are left out.

Such a term is a single number with a history, made in a step by the program itself, that no call ever reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.overwritten_variables import Overwriting, overwriting_of
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.sources.losses_assigned_again import replaced_before
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call

TextOf = Callable[[Location | None], str | None]


class LostTerm(Struct, frozen=True):
    """One number of the last step that nothing uses."""

    call: int
    """The call that made it."""
    parameters: tuple[int, ...]
    """The trained parameters that it would train."""
    overwriting: Overwriting | None
    """Where its variable is assigned again, if that is why."""


def lost_terms(histories: ParameterHistories, text_of: TextOf) -> Iterator[LostTerm]:
    """Those of the last step in which each line called backward.

    A number that nothing reads may be there for a debugger. So it counts only if its variable is assigned again, or if
    a parameter gets no gradient at all.
    """
    flow = histories.flow
    silent = histories.trained - histories.reached
    told: set[int | None] = set()
    # A parameter that is made of a result has its memory, and no call takes it.
    used = {flow.log.memory_of(each) for each in flow.parameters_of_results}
    for backward in histories.last_trained_backward_of_each_line:
        for row in range(flow.step_before(backward), backward):
            call = flow.log.calls[row]
            if call.call_site in told or not _is_unread_number(flow, call, row):
                continue
            if flow.log.memory_of(call.outputs[0].tensor) in used:
                continue
            leaves, _ = histories.live_leaves([use.tensor for use in call.outputs], row + 1)
            parameters = tuple(sorted(leaves & histories.trained))
            overwriting = overwriting_of(flow, row, text_of) if parameters else None
            is_lost = not silent.isdisjoint(parameters) and not _is_argument(call, text_of(location_of_call(flow, row)))
            if overwriting is not None or is_lost:
                told.add(call.call_site)
                yield LostTerm(row, parameters, overwriting)


def losses_assigned_again(
    histories: ParameterHistories, sources: Mapping[str, Mapping[int, str]]
) -> Iterator[LostTerm]:
    """What a loss was given before its variable was assigned again, which would have trained something; of the last
    ``backward()`` of each line. `sources` are the lines of each file of the program."""
    flow = histories.flow
    for backward in histories.last_trained_backward_of_each_line:
        site = flow.line_of(backward)
        found = None if site is None else replaced_before(tree_of(sources.get(site.file, {})), site.line)
        if site is None or found is None:
            continue
        since = flow.step_before(backward)
        used = {row for use in flow.log.calls[backward].roots for row in flow.ancestors(use.tensor, backward, since)}
        for row in range(backward - 1, since, -1):
            if row in used or all((line.file, line.line) != (site.file, found.made) for line in callers(flow, row)):
                continue
            if is_number_with_history(flow, flow.log.calls[row]):
                roots = [use.tensor for use in flow.log.calls[row].outputs]
                parameters = tuple(sorted(histories.live_leaves(roots, row + 1)[0] & histories.trained))
                lines = Location(site.file, found.line), Location(site.file, found.again)
                if parameters:
                    yield LostTerm(row, parameters, Overwriting(found.variable, *lines))
                break


def _is_argument(call: Call, text: str | None) -> bool:
    """Whether a line gives the sum or product that a call made to a function, and goes on with what this returns:
    ``k2 = field(t + h / 2, y)``. A function that does not read its time loses no loss."""
    kind = _ARITHMETIC.get(plain_name(call.function))
    try:
        statements = ast.parse((text or "").strip()).body if kind is not None else []
    except SyntaxError:  # a part of a statement, or the head of a block
        return False
    values = [each.value for each in statements if isinstance(each, (ast.Assign, ast.Return)) and each.value]
    made = {node for value in values for node in ast.walk(value) if _is_arithmetic(node, kind)}
    calls = (node for value in values for node in ast.walk(value) if isinstance(node, ast.Call))
    given = {inner for each in calls for argument in each.args for inner in ast.walk(argument)}
    return bool(made) and made <= given


_ARITHMETIC = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div}


def _is_arithmetic(node: ast.AST, kind: type[ast.operator] | None) -> bool:
    return isinstance(node, ast.BinOp) and kind is not None and isinstance(node.op, kind)


def _is_unread_number(flow: Dataflow, call: Call, row: int) -> bool:
    return is_number_with_history(flow, call) and not flow.users(call.outputs[0].tensor, after=row)


def is_number_with_history(flow: Dataflow, call: Call) -> bool:
    """Whether the program itself computed a single number that can be differentiated."""
    if call.kind != "operation" or call.inside is not None or len(call.outputs) != 1:
        return False
    (made,) = call.outputs
    shape = flow.log.tensors[made.tensor].facts.shape
    return made.has_grad_fn and all(size == 1 for size in shape) and flow.is_by_program(call)
