"""The line to edit, where it is another one than that of the cut: what cuts has to be as it is, or serves others."""

from __future__ import annotations

import ast
import re
from itertools import takewhile

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import blamed_call
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    callers,
    class_of,
    function_of,
    line_that_gave,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import all_parameters_of, called_name, parameters_of
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite
from gradviz.graph.traversal import scopes_around


class BetterLine(Struct, frozen=True):
    """A line to change instead of the one that cuts."""

    location: Location
    words: str
    """Why it is the one to change; the end of the message."""
    fix: str


# -- a function that detaches what it is given, which one loss needs as it is ------------------------------------------


def line_that_uses(case: Case, found: CutOff) -> BetterLine | None:
    """The line that gave a tensor to such a function, as to the pool of older samples of a discriminator."""
    if found.is_refused or found.is_partial or not _is_needed_elsewhere(case.dataflow, found):
        return None
    location = _line_that_called(case, found)
    cut = at_line(case.dataflow.line_of(found.cut.call))
    return None if location is None else BetterLine(location, f"another loss needs it{cut}", _FIX)


_FIX = "compute this loss from the tensor itself, and give it to the function that detaches it only for the other loss"


def _is_needed_elsewhere(flow: Dataflow, found: CutOff) -> bool:
    """Whether another loss is computed from the detached tensor, too, and has a gradient: that of a discriminator; not
    that of the inner steps by which this loss is computed, of a model that is adapted to a task first."""
    calls = flow.log.calls
    roots = calls[found.backward].roots
    above = {row for use in roots for row in flow.ancestors(use.tensor, found.backward, found.cut.call)}
    own = {calls[row].call_site for row in (found.backward, *above) if calls[row].kind == "backward"}
    below = {row for tensor in found.cut.dead_outputs for row in flow.descendants(tensor, found.cut.call)}
    others = (calls[row] for row in below if calls[row].kind == "backward" and calls[row].call_site not in own)
    return any(use.requires_grad for call in others for use in call.roots)


def _line_that_called(case: Case, found: CutOff) -> Location | None:
    """The line that called the function with the cut; None if that function computes what it cuts itself."""
    flow, cut = case.dataflow, found.cut
    makers = [flow.newest_producer(tensor, cut.call) for tensor in cut.live_inputs]
    lines = [None if maker is None else line_that_gave(flow, cut.call, maker) for maker in makers]
    return location_of_line(lines[0]) if lines and None not in lines else None


# -- a loss function that detaches its target, and was given a prediction as this --------------------------------------


def line_that_gave_target(case: Case, found: CutOff) -> BetterLine | None:
    """The line that gave a tensor to a function as the argument which, by its name, is a constant for this function."""
    outside = _outside(case.dataflow, blamed_call(case.dataflow, found)) if found.cut.kind == "detach" else None
    if outside is None or found.is_refused or found.is_partial:
        return None
    own, caller = outside
    tree = own_tree(case, own.file)
    function = None if tree is None else function_on(tree, own.line)
    if tree is None or function is None:
        return None
    names = parameters_of(function)
    detached = {
        each.value.id
        for each in ast.walk(function)
        if isinstance(each, ast.Attribute) and each.attr == "detach" and each.lineno == own.line
        if isinstance(each.value, ast.Name) and each.value.id in names
    }
    constants = [name for name in names if _IS_CONSTANT.search(name)]
    if len(names) < _TARGET_AND_PREDICTION or len(constants) != 1 or detached != set(constants):
        return None
    name = function_of(own).rpartition(".")[2]
    return BetterLine(
        Location(caller.file, caller.line),
        f"{name}() detaches its {constants[0]}, and this line gives it that as {constants[0]}",
        f"give {name}() the arguments in its own order, {', '.join(names)}, or by name",
    )


_IS_CONSTANT = re.compile(r"target|tgt|teacher|label|reference|frozen|truth|(^|_)(ref|old|gt|goal)(_|$)")
_TARGET_AND_PREDICTION = 2


# -- a function that does nothing but hand its arguments on without a gradient -----------------------------------------


def line_outside_helper(case: Case, found: CutOff) -> BetterLine | None:
    """The line that calls a function with the cut, if this function computes nothing: what it does is meant, and who
    calls it may not want it."""
    flow = case.dataflow
    outside = _outside(flow, blamed_call(flow, found)) if found.cut.kind in _BY_CALLS else None
    if outside is None:
        return None
    own, caller = outside
    makers = [flow.newest_producer(tensor, found.cut.call) for tensor in found.cut.live_inputs]
    if not makers or any(maker is None or _calls_for(flow, maker, own) for maker in makers):
        return None
    if not _only_hands_on(flow, own) or not _only_returns(case, own):
        return None
    name = function_of(own).rpartition(".")[2]
    return BetterLine(
        Location(caller.file, caller.line),
        f"{name}() does nothing else, and this line calls it",
        f"use the tensor itself here, without {name}(); if a log or a cache needs it without a history, give "
        f"{name}() only what the loss does not use",
    )


def _only_returns(case: Case, own: CallSite) -> bool:
    """Whether a function only returns what it was given in another form, also inside of lists: it stores nothing,
    computes nothing with NumPy, and is not there to move it to the device or type of a model."""
    tree = own_tree(case, own.file)
    function = None if tree is None else function_on(tree, own.line)
    if function is None:
        return False
    body = [each for each in ast.walk(function) if isinstance(each, ast.stmt) and each is not function]
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    only_hands_on = {called_name(each) for each in calls} <= _SAME_VALUES | _OF_CONTAINERS | {function.name}
    is_to_move = any(map(_moves, calls))
    only_returns = all(isinstance(each, (ast.Return, ast.If)) or _is_text(each) for each in body)
    return only_hands_on and only_returns and not is_to_move


def _moves(call: ast.Call) -> bool:
    """``x.to(device)``, and not ``x.to("cpu")``, as for a log."""
    given = [*call.args, *(each.value for each in call.keywords)]
    return called_name(call) == "to" and not any(
        isinstance(each, ast.Constant) and each.value == "cpu" for each in given
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


_OF_CONTAINERS = frozenset(
    {"isinstance", "is_tensor", "type", "list", "tuple", "dict", "items", "values", "map", "zip"}
)
_BY_CALLS = ("detach", "data", "value", "numpy")


def _outside(flow: Dataflow, row: int) -> tuple[CallSite, CallSite] | None:
    """The user's own line of a call, and the one that called the function it is in; None if a library called that."""
    sites = flow.log.call_sites
    own, site = flow.line_of(row), flow.log.calls[row].call_site
    if own is None or own.is_library or function_of(own) == "<module>":
        return None
    is_inside = True
    while site is not None:
        each = sites[site]
        if not each.is_library:
            is_inside = False
            if (each.file, function_of(each)) != (own.file, function_of(own)):
                return (own, each) if _is_called_by(flow, row, own, each) else None
        elif not is_inside and not each.function.endswith("Module._call_impl"):
            return None
        site = each.caller
    return None


def _is_called_by(flow: Dataflow, row: int, own: CallSite, caller: CallSite) -> bool:
    """Whether a method of a module is called where the record says: torch's own modules, such as ``Sequential``, leave
    no line between those of two modules."""
    scopes = flow.log.scopes
    around = [scopes[scope].class_name for scope in scopes_around(scopes, flow.log.calls[row].scope)]
    name = class_of(own).rpartition(".")[2]
    outer = around[around.index(name) + 1 :] if name in around else []
    return not outer or outer[0] == class_of(caller).rpartition(".")[2]


def _calls_for(flow: Dataflow, row: int, own: CallSite) -> bool:
    """Whether a function made a call, itself or through others."""
    return any((line.file, function_of(line)) == (own.file, function_of(own)) for line in callers(flow, row))


def _only_hands_on(flow: Dataflow, own: CallSite) -> bool:
    """Whether a function makes no calls but those that give the same values in another form."""
    key = (own.file, function_of(own))
    sites = flow.log.call_sites
    inside = {number for number, _ in enumerate(sites) if _is_own_of(flow, number, key)}
    return all(plain_name(call.function) in _SAME_VALUES for call in flow.log.calls if call.call_site in inside)


def _is_own_of(flow: Dataflow, site: int, key: tuple[str, str]) -> bool:
    line = flow.line(site)
    return line is not None and (line.file, function_of(line)) == key


_SAME_VALUES = frozenset({
    "detach", "detach_", "clone", "data", "__get__", "data.__get__", "cpu", "cuda", "to", "float", "double", "numpy",
    "__array__", "item", "tolist", "contiguous", "copy_", "requires_grad_",
})  # fmt: skip


# -- a function that cuts only if one of its arguments says so --------------------------------------------------------


def line_that_asks(case: Case, found: CutOff) -> BetterLine | None:
    """The line that calls a function with an argument, or its default, for which this function cuts: for another one
    it would not."""
    outside = _outside(case.dataflow, blamed_call(case.dataflow, found)) if found.cut.kind in _BY_CALLS else None
    asked = None if outside is None else _argument_that_cuts(case, outside[0])
    if outside is None or asked is None:
        return None
    own, caller = outside
    name, is_true = asked
    return BetterLine(
        Location(caller.file, caller.line),
        f"{name} is {is_true} in this call of {function_of(own).rpartition('.')[2]}()",
        f"where the loss needs the gradient, pass {name}={not is_true} here",
    )


def _argument_that_cuts(case: Case, own: CallSite) -> tuple[str, bool] | None:
    """The parameter of the function on which it depends whether the line cuts, and whether it is true or false then."""
    tree = own_tree(case, own.file)
    function = None if tree is None else function_on(tree, own.line)
    if tree is None or function is None:
        return None
    parameters = all_parameters_of(function)
    cuts = (node for node in ast.walk(function) if isinstance(node, ast.Attribute) and node.lineno == own.line)
    for node in cuts:
        inner: ast.AST = node
        for outer in tree.around(node) if node.attr in _CUT_AS_TOLD else ():
            if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test:
                is_true = inner is outer.body or (isinstance(outer, ast.If) and inner in outer.body)
                test = outer.test
                if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                    test, is_true = test.operand, not is_true
                return (test.id, is_true) if isinstance(test, ast.Name) and test.id in parameters else None
            if outer is function:
                break
            inner = outer
    return None


_CUT_AS_TOLD = frozenset({"detach", "detach_", "data"})


def is_cut_on_condition(case: Case, found: CutOff) -> bool:
    """Whether the line cuts only at some times, as in the first epochs; what kind of object it has does not count."""
    own = case.dataflow.line_of(blamed_call(case.dataflow, found))
    tree = None if own is None else own_tree(case, own.file)
    if own is None or tree is None:
        return False
    for node in tree.nodes:
        if isinstance(node, ast.Attribute) and node.lineno == own.line and node.attr in _CUT_AS_TOLD:
            for outer in takewhile(lambda each: not isinstance(each, FUNCTIONS), tree.around(node)):
                if isinstance(outer, (ast.If, ast.IfExp)) and not _asks_for_kind(outer.test):
                    return True
    return False


def _asks_for_kind(test: ast.expr) -> bool:
    """``isinstance(output, tuple)``, ``output is not None``, ``__name__ == "__main__"``."""
    inside = list(ast.walk(test))
    return (
        any(called_name(node) in ("isinstance", "is_tensor", "hasattr") for node in inside)
        or any(isinstance(node, ast.Constant) and node.value is None for node in inside)
        or any(isinstance(node, ast.Name) and node.id == "__name__" for node in inside)
    )


# -- a choice, which has no derivative, of what a trained part takes or computes ---------------------------------------


def line_that_takes_chosen(case: Case, found: CutOff) -> BetterLine | None:
    """The line that takes rows, or puts the results of rows, by what was chosen, and leaves out how good it was; or
    the one that makes gates of one number for all that was chosen.

    The choice itself cannot have a gradient: a router or a pooling learns from its score in the result.
    """
    flow, calls = case.dataflow, case.dataflow.log.calls
    name = plain_name(calls[found.cut.call].function)
    if found.is_refused or name not in _CHOOSES:
        return None
    gate = next((row for row in found.cut_path.calls[1:2] if _scatters_a_number(calls[row])), None)
    if gate is not None:
        location = location_of_call(flow, gate)
        return None if location is None else BetterLine(location, _SAME_FOR_ALL, _SCATTER.format(name))
    row = next((row for row in found.cut_path.calls[1:] if calls[row].live_inputs), None)
    if row is None or plain_name(calls[row].function) not in _TAKES_ROWS | _PUTS_ROWS or not _is_of_samples(flow, row):
        return None
    location = location_of_call(flow, _put_back(flow, row, found) or row)
    if location is None or location == location_of_call(flow, found.cut.call):
        return None
    return BetterLine(location, _UNWEIGHED, _WEIGH)


_CHOOSES = frozenset({"topk", "max", "argmax", "sort", "argsort"})
_TAKES_ROWS = frozenset({"getitem", "gather", "take_along_dim", "index_select", "masked_select"})
_PUTS_ROWS = frozenset({"setitem", "index_put", "index_put_", "index_add", "index_add_", "index_copy", "index_copy_"})
_MATRICES = 3
"""Axes of a parameter with a matrix for each of several experts."""
_UNWEIGHED = "what this line takes by it is not weighed with the score by which it was chosen"
_WEIGH = (
    "multiply what is taken, or what is computed with it, by the score of what was chosen, as topk and max return it "
    "beside the index: the score has a derivative, the choice has none"
)
_SAME_FOR_ALL = "this line gives all that was chosen the same number, not the score by which it was chosen"
_SCATTER = (
    "scatter the values that {} returns beside the index: scatter(1, index, values); or let a straight-through "
    "estimate bring the gradient past the choice"
)


def _scatters_a_number(call: Call) -> bool:
    """``scatter(1, index, 0.5)``."""
    is_scatter = plain_name(call.function) == "scatter" and len(call.inputs) == _GATE_AND_INDEX
    return is_scatter and type(call.scalars.get("value", call.scalars.get("3"))) in (int, float)


_GATE_AND_INDEX = 2


def _is_of_samples(flow: Dataflow, row: int) -> bool:
    """Whether rows of samples are taken, or weights of experts: not the entries of a table, such as codes, which an
    encoder is compared with."""
    for use in flow.log.calls[row].live_inputs:
        if use.is_live_leaf:
            return len(shape_of(flow, use.tensor)) >= _MATRICES
        above = flow.ancestors(use.tensor, row, flow.step_before(row))
        if any(
            not given.requires_grad and shape_of(flow, given.tensor)
            for each in above
            for given in flow.log.calls[each].inputs
        ):
            return True
    return False


def _put_back(flow: Dataflow, row: int, found: CutOff) -> int | None:
    """The call that puts the results for the taken rows at their places, by the same index."""
    calls = flow.log.calls
    live = {use.tensor for use in calls[row].live_inputs}
    return next(
        (
            user
            for use in calls[row].inputs
            if use.tensor not in live
            for user in flow.users(use.tensor, row)
            if user < found.backward and plain_name(calls[user].function) in _PUTS_ROWS and calls[user].live_inputs
        ),
        None,
    )
