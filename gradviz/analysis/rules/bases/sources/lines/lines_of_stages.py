"""Whether a call runs once for each of several things that a program goes through: tasks, sets of data, stages.

>>> tree = SourceTree(dict(enumerate('''for task in tasks:
...     learn(task)
... for epoch in range(9):
...     learn(data)
... for epoch, rate in enumerate([0.1, 0.01]):
...     learn(data)
... for task in range(9):
...     learn(data[task])
... for stage in range(9):
...     learn(data)
... [learn(data) for epoch in range(9)]
... [learn(task) for task in tasks]
... from torch.nn.utils import prune
... for share in (0.5, 0.8):
...     prune.l1_unstructured(layer, "weight", share)
...     learn(data)
... for k in range(settings.tasks):
...     learn(k)
... parts, rates = [], [0.1, 0.01]
... for k, part in enumerate(parts):
...     learn(part)
... for k, rate in enumerate(rates):
...     learn(data)'''.splitlines(), start=1)))
>>> [[goes_through_things(tree, loop) for loop in loops_at(tree, line, "learn")] for line in (2, 4, 6, 8, 10)]
[[True], [False], [False], [True], [True]]
>>> [[goes_through_things(tree, loop) for loop in loops_at(tree, line, "learn")] for line in (11, 12, 16, 18)]
[[False], [True], [True], [True]]
>>> [[goes_through_things(tree, loop) for loop in loops_at(tree, line, "learn")] for line in (21, 23)]
[[True], [False]]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, function_of
from gradviz.analysis.parameters.creation_lines import first_writes
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    LOOPS,
    Key,
    Loop,
    SourceTree,
    called_name,
    given_to,
    last_line,
    last_name,
    tree_of,
)

_THINGS = re.compile(r"(task|domain|stage|phase|round|rnd|cycle|session|experience|client)(_?(id|idx|index|number|i))?")
_MANY_THINGS = re.compile(r"((n|num|number_of)_?)?(tasks|domains|stages|phases|sessions|experiences|clients)")
_COUNTS = frozenset({"range", "trange", "count", "arange", "linspace", "logspace"})
_WRAP = frozenset({"enumerate", "tqdm", "zip", "list", "reversed", "track", "iter"})
_DEEP = 2
_LITERALS = (ast.List, ast.Tuple, ast.Set)


def is_made_for_each_thing(case: Case, call: int, parameter: int) -> bool:
    """Whether only one loop repeats a call, in its function or in those that called it, and goes through things of
    which each may need its own: not through epochs, nor through numbers. Or whether none does: then lines of the
    program call it one after the other. A loop that makes the parameter anew as well repeats nothing for it."""
    found, is_known = list[tuple[SourceTree, Loop | ast.comprehension]](), False
    called = ""
    made = first_writes(case.dataflow, parameter, call)
    beside = {(line.file, line.line) for line in callers(case.dataflow, made[0])} if made else set()
    for line in callers(case.dataflow, call):
        lines = case.capture.sources.get(line.file, {})
        if line.line in lines:
            tree, is_known = tree_of(lines), True
            inside = {number for file, number in beside if file == line.file}
            loops = loops_at(tree, line.line, called)
            found += [(tree, loop) for loop in loops if not _repeats_one_of(tree, loop, inside)]
        called = function_of(line).rpartition(".")[2]
    return goes_through_things(*found[0]) if len(found) == 1 else is_known and not found


def _repeats_one_of(tree: SourceTree, loop: Loop | ast.comprehension, lines: set[int]) -> bool:
    """Whether a loop, or the expression that goes through it, repeats one of some lines."""
    around = tree.parent(loop) if isinstance(loop, ast.comprehension) else loop
    return isinstance(around, ast.stmt | ast.expr) and any(around.lineno <= line <= last_line(around) for line in lines)


def loops_at(tree: SourceTree, line: int, called: str) -> list[Loop | ast.comprehension]:
    """The loops of the same function that repeat the calls at a line, and the comprehensions that call a function."""
    calls = [node for node in tree.nodes if isinstance(node, ast.Call)]
    here = next((node for node in calls if node.lineno <= line <= (node.end_lineno or 0)), None)
    if here is None:
        return []
    named = (each for each in calls if called_name(each) == called and each.lineno <= line <= last_line(each))
    around = [list(tree.around(each)) for each in named]
    repeated = (parents for parents in around if not any(isinstance(each, ast.comprehension) for each in parents))
    within = {each for parents in repeated for each in parents if isinstance(each, COMPREHENSIONS)}
    return [*(each for comprehension in within for each in comprehension.generators), *tree.loops_around(here)]


def goes_through_things(tree: SourceTree, loop: Loop | ast.comprehension) -> bool:
    """Whether a loop has a variable that stands for something else than a number, numbers what is taken, or has the
    name of a part of a training with data of its own."""
    if isinstance(loop, ast.While):
        return False
    over = list(_gone_through(tree, loop.iter, _DEEP))
    if _chooses_data(tree, loop) or any(_THINGS.fullmatch(last_name(each)) for each in ast.walk(loop.target)):
        return True
    counts = (arg for each in over if isinstance(each, ast.Call) and called_name(each) in _COUNTS for arg in each.args)
    if any(_MANY_THINGS.fullmatch(last_name(each).lower()) for each in counts):
        return True
    are_settings = not any(map(_are_numbers, over)) or _computes_with_it(tree, loop) or _gives_to_a_library(tree, loop)
    return are_settings and not any(called_name(each) in _COUNTS for each in over)


def _computes_with_it(tree: SourceTree, loop: ast.For | ast.AsyncFor | ast.comprehension) -> bool:
    """Whether each step computes with the number of a loop, as with a share of noise, itself or in a function of the
    file that takes it: no learning rate."""
    keys = {tree.key_of(each) for each in ast.walk(loop.target)} - {None}
    inner = [each for each in _inside(tree, loop) if isinstance(each, LOOPS)]
    taken = [each for node in _inside(tree, loop) for each in _taken_as(tree, node, keys)]
    return any(_are_terms(tree, within, keys) for within in inner) or any(
        _are_terms(tree, function, {Key(function.lineno, name)}) for function, name in taken
    )


def _are_terms(tree: SourceTree, part: ast.AST, keys: Set[Key | None]) -> bool:
    """Whether a part of the source adds or multiplies with a variable."""
    names = (each for each in ast.walk(part) if isinstance(each, ast.Name))
    return any(isinstance(tree.parent(each), ast.BinOp) for each in names if tree.key_of(each) in keys)


def _taken_as(tree: SourceTree, call: ast.AST, keys: Set[Key | None]) -> Iterator[tuple[ast.FunctionDef, str]]:
    """The functions of the file that a call gives a variable to, each with the name of its parameter."""
    if not isinstance(call, ast.Call):
        return
    for function in tree.nodes:
        if isinstance(function, ast.FunctionDef) and function.name == called_name(call):
            yield from ((function, name) for name, value in given_to(function, call) if tree.key_of(value) in keys)


def _gives_to_a_library(tree: SourceTree, loop: ast.For | ast.AsyncFor | ast.comprehension) -> bool:
    """Whether a function of an imported module takes the number of a loop, such as the share of weights that
    ``prune.l1_unstructured()`` takes away; no class, as an optimizer takes its learning rate."""
    keys = {tree.key_of(each) for each in ast.walk(loop.target)} - {None}
    imports = (node for node in tree.nodes if isinstance(node, ast.Import | ast.ImportFrom))
    modules = {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
    for node in _inside(tree, loop):
        if isinstance(node, ast.Call) and called_name(node) not in _SHOWS and called_name(node)[:1].islower():
            first = next((each for each in ast.walk(node.func) if isinstance(each, ast.Name)), None)
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            if first is not None and first.id in modules and any(tree.key_of(each) in keys for each in given):
                return True
    return False


def _chooses_data(tree: SourceTree, loop: ast.For | ast.AsyncFor | ast.comprehension) -> bool:
    """Whether data are taken by the number of a loop, ``data[task]``; not what is written or shown by it."""
    keys = {tree.key_of(each) for each in ast.walk(loop.target)} - {None}
    for node in _inside(tree, loop):
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        is_number = any(tree.key_of(each) in keys for each in _indexes(node.slice))
        if is_number and not any(called_name(each) in _SHOWS for each in tree.around(node)):
            return True
    return False


def _inside(tree: SourceTree, loop: ast.For | ast.AsyncFor | ast.comprehension) -> Iterator[ast.AST]:
    """All that is within the body of a loop, or within a comprehension."""
    parent = tree.parent(loop)
    body = [parent] if isinstance(loop, ast.comprehension) and parent is not None else getattr(loop, "body", [])
    return (each for part in body for each in ast.walk(part))


def _indexes(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


_SHOWS = frozenset({"print", "append", "info", "write"})


def _gone_through(tree: SourceTree, value: ast.expr, deep: int) -> Iterator[ast.expr]:
    """What a loop goes through, also in ``enumerate()`` and behind the name of a variable; ``range()`` only alone."""
    key = tree.key_of(value)
    if called_name(value) in _WRAP and isinstance(value, ast.Call):
        several = [part for each in value.args for part in _gone_through(tree, each, deep)]
        yield from (each for each in several if len(value.args) == 1 or called_name(each) not in _COUNTS)
    elif key is None or not deep:
        yield value
    else:
        yield from (part for each in tree.values_of(key) for part in _gone_through(tree, each, deep - 1))


def _are_numbers(value: ast.expr) -> bool:
    """Whether a list is written with numbers; not one that begins empty, and that something is put into later."""
    elements = value.elts if isinstance(value, _LITERALS) else []
    return bool(elements) and all(isinstance(each, ast.Constant) for each in elements)
