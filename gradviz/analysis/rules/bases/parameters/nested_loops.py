"""Loops over the parameters of each module of a model, which come to a parameter once for each module around it.

``modules()`` gives a model and all modules in it, and ``parameters()`` of each of them has those of its children, too.

>>> tree = SourceTree({1: "for m in net.modules():", 2: "    for p in m.parameters():", 3: "        r += p.norm()"})
>>> [(each.line, each.first, each.last, each.called, each.is_conditional) for each in nested_loops(tree)]
[(2, 2, 3, 'parameters', False)]
>>> tree = SourceTree({1: "def size(m):", 2: "    own = sum(p.norm() for p in m.parameters())",
...     3: "    return own + sum(size(each) for each in m.children())"})
>>> [(each.line, each.called, each.is_conditional) for each in nested_loops(tree)]
[(2, 'parameters', False)]
>>> list(nested_loops(SourceTree({1: "r = sum(p.norm() for m in net.modules() for p in m.parameters(recurse=False))"})))
[]
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    SourceTree,
    called_name,
    given_to,
    last_line,
    last_name,
    names_in,
)
from gradviz.graph.call_log import Call

_OF_PARAMETERS = frozenset({"parameters", "named_parameters"})
_OF_ALL = frozenset({"modules", "named_modules"})
_OF_CHILDREN = frozenset({"children", "named_children"})
_ONE_OF_SEVERAL = frozenset({"max", "amax", "maximum", "min", "amin", "minimum", "unique", "sort", "topk"})
"""What a value that comes twice does not change, as the largest norm."""
_CHANGES = frozenset({"add", "sub", "lerp", "addcmul", "addcdiv"})
_SCALES = frozenset({"mul", "div"})


class NestedLoop(Struct, frozen=True):
    """What goes through ``parameters()`` of each module."""

    line: int
    """Of the call of ``parameters()``."""
    first: int
    last: int
    """The lines that it runs for each parameter."""
    called: str
    is_conditional: bool
    """Whether some modules are left out, so that each parameter may come once."""


class CountedOften(Struct, frozen=True):
    """Parameters that such a loop came to several times, in one loss or one step."""

    loop: NestedLoop
    location: Location
    times: dict[int, int]
    """By parameter."""

    @property
    def message(self) -> str:
        """Which parameter comes how often, for findings that say at first what is done with them."""
        return f"once for each module around it, since {self.loop.called}() of a module has those of its children, too"

    @property
    def often(self) -> list[int]:
        """The parameters that it came to more than once."""
        return [each for each, times in self.times.items() if times > 1]

    @property
    def is_even(self) -> bool:
        """Whether it came to all as often."""
        return len(set(self.times.values())) == 1

    @property
    def evidence(self) -> dict[str, int]:
        """How often it came to a parameter, at most and at least."""
        return {"most": max(self.times.values()), "fewest": min(self.times.values())}

    @property
    def fix(self) -> str:
        """The same for all of them."""
        return (
            f"write {self.loop.called}(recurse=False) in the inner loop, or one loop over the {self.loop.called}() of "
            "the whole model"
        )

    def examples(self, case: Case) -> str:
        """``model.0.0.weight 3 times and model.1.weight 2 times``: the most and the fewest."""
        ordered = sorted(self.times)
        most, fewest = max(ordered, key=self.times.__getitem__), min(ordered, key=self.times.__getitem__)
        shown = (most, fewest) if self.times[most] > self.times[fewest] else (most,)
        names = case.dataflow.log.tensors
        return " and ".join(f"{name_of(names[each]) or 'a weight'} {_times(self.times[each])}" for each in shown)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def counted_often_in_losses(case: Case) -> Iterator[CountedOften]:
    """Those of which a loss has the same sum several times."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    loops = list(_loops(case))
    for backward in case.histories.last_trained_backward_of_each_line if loops else ():
        since = flow.step_before(backward)
        above = set[int]().union(*(flow.ancestors(use.tensor, backward, since) for use in calls[backward].roots))
        for file, loop, rows in loops:
            of_leaf = [
                (row, use.tensor)
                for row in rows
                if row in above and calls[row].kind == "operation"
                for use in calls[row].live_inputs
                if use.is_leaf
            ]
            for times, row in _repeated(case, loop, of_leaf):
                made = calls[row].outputs[0].tensor
                below = above.intersection(flow.descendants(made, row, backward))
                if _ONE_OF_SEVERAL.isdisjoint(plain_name(calls[each].function) for each in below):
                    yield CountedOften(loop, Location(file, loop.line), times)


def counted_often_in_steps(case: Case) -> Iterator[CountedOften]:
    """Those that change, or whose gradients change, several times between two backward calls."""
    flow, histories = case.dataflow, case.histories
    loops = list(_loops(case))
    leaves = {flow.memory_of(number): number for number in (flow.log.parameters if loops else ())}
    if loops:
        leaves |= {flow.memory_of(each): leaf for each, leaf in histories.leaves_of_gradients.items()}
    for file, loop, rows in loops:
        windows: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            call = flow.log.calls[row]
            if call.kind != "operation" or not _adds_up(call):
                continue
            changed = {leaves.get(flow.memory_of(use.tensor)) for use in call.changed} - {None}
            windows[flow.backward_before(row)] += [(row, leaf) for leaf in changed if leaf is not None]
        for backward, of_leaf in windows.items():
            if backward is not None:
                yield from (
                    CountedOften(loop, Location(file, loop.line), times) for times, _ in _repeated(case, loop, of_leaf)
                )


def _adds_up(call: Call) -> bool:
    """Whether doing it twice is something else than doing it once; masks of zeros and ones change nothing then."""
    name = plain_name(call.function)
    return name in _CHANGES or (name in _SCALES and len(call.inputs) == 1)


def _loops(case: Case) -> Iterator[tuple[str, NestedLoop, list[int]]]:
    """The nested loops of the program, with the calls that they made."""
    for file, tree in own_files(case):
        loops = list(nested_loops(tree))
        ran = LinesThatRan(case.dataflow, file) if loops else None
        for loop in loops:
            rows = [] if ran is None else ran.rows_in(loop.first, loop.last)
            yield file, loop, rows


def _repeated(case: Case, loop: NestedLoop, of_leaf: list[tuple[int, int]]) -> Iterator[tuple[dict[int, int], int]]:
    """How often one line came to each parameter, where some came several times, with a call for one of these.

    Where modules are left out, each parameter may come as often as the loop ran. So it counts only if others came
    another number of times, and only those that have one place in the model: a tied one comes with each of its modules.
    """
    calls, flow = case.dataflow.log.calls, case.dataflow
    by_site: dict[tuple[object, str], Counter[int]] = defaultdict(Counter)
    last: dict[int, int] = {}
    for row, leaf in of_leaf:
        last[leaf] = row
        if not loop.is_conditional or len(flow.log.tensors[leaf].names) == 1:
            # A function that calls itself comes to its line from several others.
            site = calls[row].call_site if loop.is_conditional else location_of_call(flow, row)
            by_site[site, calls[row].function][leaf] += 1
    for times in by_site.values():
        most = max(times, key=lambda each: times[each])
        if times[most] > 1 and (not loop.is_conditional or len(set(times.values())) > 1):
            yield dict(times), last[most]
            return


def nested_loops(tree: SourceTree) -> Iterator[NestedLoop]:
    """The loops and comprehensions of a file that go through the parameters of each of its modules, with children."""
    for node in tree.nodes:
        if called_name(node) not in _OF_PARAMETERS or not isinstance(node, ast.Call):
            continue
        if _is_own_only(node) or not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
            continue
        found = _condition(tree, node, node.func.value.id)
        if found is not None:
            run = tree.statement_around(node) or node
            yield NestedLoop(node.lineno, run.lineno, last_line(run), called_name(node), found)


def _is_own_only(call: ast.Call) -> bool:
    """Whether ``recurse`` is given, and not True."""
    by_place = call.args[len(["prefix"]) if called_name(call) == "named_parameters" else 0 :]
    given = [*by_place, *(each.value for each in call.keywords if each.arg == "recurse")]
    return any(not (isinstance(each, ast.Constant) and each.value is True) for each in given)


def _condition(tree: SourceTree, node: ast.AST, name: str) -> bool | None:
    """Whether the modules that a name stands for at a node are chosen by a condition; None if they are not all modules
    of a model."""
    below = node
    between = list[ast.AST]()
    for each in tree.around(node):
        if isinstance(each, COMPREHENSIONS):
            loop = next((part for part in each.generators if name in names_in(part.target)), None)
            if loop is not None and loop is not below:
                return _of_iterated(tree, loop.iter, is_conditional=bool(loop.ifs) or _has_condition(between))
        elif isinstance(each, ast.For) and below is not each.iter and name in names_in(each.target):
            skips = any(isinstance(part, ast.Continue) for part in ast.walk(each))
            return _of_iterated(tree, each.iter, is_conditional=skips or _has_condition(between))
        elif isinstance(each, ast.Lambda) and name in {arg.arg for arg in each.args.args}:
            user = tree.parent(each)
            return _has_condition(between) if called_name(user or each) == "apply" else None
        elif isinstance(each, FUNCTIONS) and name in {arg.arg for arg in each.args.args}:
            return _of_function(tree, each, name, is_conditional=_has_condition(between))
        elif isinstance(each, FUNCTIONS):
            return None
        between.append(each)
        below = each
    return None


def _has_condition(nodes: list[ast.AST]) -> bool:
    return any(isinstance(each, (ast.If, ast.IfExp)) for each in nodes)


def _of_iterated(tree: SourceTree, iterated: ast.expr, *, is_conditional: bool) -> bool | None:
    """The same of what a loop goes through: ``modules()``, or a variable that holds them."""
    values = [iterated, *tree.values_of(tree.key_of(iterated))]
    found = [each for value in values for each in ast.walk(value)]
    if not any(called_name(each) in _OF_ALL for each in found):
        return None
    chosen = any(getattr(each, "ifs", None) or called_name(each) == "filter" for each in found)
    return is_conditional or chosen or any(isinstance(each, ast.Subscript) for each in found)


def _of_function(
    tree: SourceTree, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, is_conditional: bool
) -> bool | None:
    """The same of what a function is given: by a loop, by ``apply()``, or by itself for the children of a module."""
    is_conditional = is_conditional or any(isinstance(each, ast.Return) for each in _returns_early(function))
    for call in tree.nodes:
        if not isinstance(call, ast.Call):
            continue
        if called_name(call) == "apply" and any(last_name(each) == function.name for each in call.args):
            return is_conditional
        if called_name(call) != function.name:
            continue
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) and name == "self" else []
        for argument in (*owner, *(value for given, value in given_to(function, call) if given == name)):
            if not isinstance(argument, ast.Name) or argument.id == "self":
                continue
            is_inside = function in tree.around(call)
            found = _is_child(tree, call, argument.id) if is_inside else _loop_condition(tree, call, argument.id)
            if found is not None:
                return found or is_conditional
    return None


def _returns_early(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    return (part for each in function.body if isinstance(each, ast.If) for part in ast.walk(each))


def _loop_condition(tree: SourceTree, call: ast.Call, name: str) -> bool | None:
    """As `_condition`, of a name that a loop around a call binds, not a function."""
    is_of_loop = any(_is_bound_by(each, name) for each in tree.around(call))
    return _condition(tree, call, name) if is_of_loop else None


def _is_bound_by(node: ast.AST, name: str) -> bool:
    targets = [each.target for each in getattr(node, "generators", ())]
    return any(name in names_in(each) for each in (*targets, *([node.target] if isinstance(node, ast.For) else [])))


def _is_child(tree: SourceTree, call: ast.Call, name: str) -> bool | None:
    """False if a name stands for each child of a module at a call; None if not."""
    for each in tree.around(call):
        loops = [*getattr(each, "generators", ()), *([each] if isinstance(each, ast.For) else [])]
        for loop in loops:
            if name in names_in(loop.target):
                return False if any(called_name(part) in _OF_CHILDREN for part in ast.walk(loop.iter)) else None
    return None
