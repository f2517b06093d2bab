"""Lines that make a tensor of an array without a copy, or an array of a tensor, and what other lines do with them.

>>> tree = SourceTree(dict(enumerate('''class Env:
...     def observe(self):
...         return torch.from_numpy(self.state)
...     def advance(self):
...         self.state += 1
...         return torch.as_tensor(self.reward)'''.splitlines(), 1)))
>>> lines_that_share(tree)
{3}
>>> tree = SourceTree(dict(enumerate('''def kept(net):
...     return {name: p.numpy() for name, p in net.state_dict().items()}
... start = kept(net)
... end = kept(net)
... moved = [end[name] - start[name] for name in end]'''.splitlines(), 1)))
>>> subtracts_kept(tree, {2}), subtracts_kept(tree, {3})
(True, False)
"""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name, parameters_of, tree_of

_WRAPS = frozenset({"from_numpy", "as_tensor", "asarray", "from_dlpack", "frombuffer"})


def line_that_shares(case: Case) -> Location | None:
    """The only such line of a program; None if it has several, or none."""
    found = [Location(file, line) for file, tree in own_files(case) for line in lines_that_share(tree)]
    return found[0] if len(found) == 1 else None


def calls_that_wrap(tree: SourceTree) -> list[ast.Call]:
    """Every call that makes a tensor of what may be an array, without a copy: not that of ``array.copy()``."""
    calls = [node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) in _WRAPS and node.args]
    return [node for node in calls if isinstance(node.args[0], (ast.Name, ast.Attribute, ast.Subscript))]


def lines_that_share(tree: SourceTree) -> set[int]:
    """The numbers of these lines."""
    changed = {name for node in tree.nodes for name in _changed_by(node)}
    return {
        node.lineno
        for node in tree.nodes
        if isinstance(node, ast.Call) and called_name(node) in _WRAPS and node.args and _array(node.args[0]) in changed
    }


def line_that_returns_own(case: Case) -> Location | None:
    """The last line on which a method returns an array of its object that some method changes in place, in any file of
    the program: an environment in NumPy never calls torch."""
    files = case.files_of_program.items()
    found = [(file, line) for file, lines in files for line in lines_that_return_own(tree_of(lines))]
    return Location(*max(found)) if found and len({file for file, _ in found}) == 1 else None


def lines_that_return_own(tree: SourceTree) -> set[int]:
    """The numbers of these lines: ``return self.state`` or ``return torch.from_numpy(self.state)``, alone or beside
    other things.

    >>> lines = {1: "class E:", 2: "  def f(self):", 3: "    self.s[0] = 1", 4: "    return self.s, 0"}
    >>> lines_that_return_own(SourceTree(lines))
    {4}
    """
    found = set[int]()
    for owner in (node for node in tree.nodes if isinstance(node, ast.ClassDef)):
        inside = list(ast.walk(owner))
        views = _views_by_property(inside)
        written = {name for node in inside for name in _changed_by(node)}
        changed = {views.get(name, name) for name in written} - _numbers_of(inside)
        for node in inside:
            if isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                own = {f"self.{name}" for name in changed} & {ast.unparse(_unwrapped(each)) for each in parts}
                found |= {node.lineno} if own else set()
    return found


def _unwrapped(given: ast.expr) -> ast.expr:
    """``self.state`` of ``torch.from_numpy(self.state)``, which has its memory."""
    is_wrapped = isinstance(given, ast.Call) and called_name(given) in _WRAPS and len(given.args) == 1
    return given.args[0] if isinstance(given, ast.Call) and is_wrapped else given


def line_that_writes(case: Case, returned: Location) -> Location | None:
    """The last line that changes an array in place that a line returns, in a method of the same class."""
    tree = tree_of(case.files_of_program[returned.file])
    statement = tree.statement_at(returned.line)
    owner = (
        None if statement is None else next((e for e in tree.around(statement) if isinstance(e, ast.ClassDef)), None)
    )
    if statement is None or owner is None:
        return None
    inside = list(ast.walk(owner))
    views = _views_by_property(inside)
    own = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)} - _numbers_of(inside)
    lines = [
        node.lineno
        for node in inside
        if isinstance(node, ast.stmt) and any(views.get(name, name) in own for name in _changed_by(node))
    ]
    return Location(returned.file, max(lines)) if lines else None


def _views_by_property(inside: list[ast.AST]) -> dict[str, str]:
    """By property that returns a part of an array of its object: that array.

    >>> lines = {1: "class E:", 2: "  @property", 3: "  def x(self):", 4: "    return self.s[:, 0]"}
    >>> _views_by_property(SourceTree(lines).nodes)
    {'x': 's'}
    """
    found = dict[str, str]()
    for node in inside:
        is_property = isinstance(node, ast.FunctionDef) and "property" in map(last_name, node.decorator_list)
        end = node.body[-1] if is_property and isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and isinstance(end, ast.Return) and end.value is not None:
            name = _array(end.value)
            if name and name != node.name:
                found[node.name] = name
    return found


def _numbers_of(inside: list[ast.AST]) -> set[str]:
    """What begins as a number, ``self.t = 0``: it is counted up, and never changed in place."""
    given = [node for node in inside if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    return {target.attr for node in given for target in node.targets if isinstance(target, ast.Attribute)}


def _array(given: ast.expr) -> str:
    """The name of an array, or of that of which a part is taken; "" for what computes a new one."""
    while isinstance(given, ast.Subscript):
        given = given.value
    return last_name(given) if isinstance(given, (ast.Name, ast.Attribute)) else ""


def _changed_by(node: ast.AST) -> set[str]:
    """The arrays that ``x += 1`` or ``x[i] = 1`` changes."""
    if isinstance(node, ast.AugAssign):
        return {_array(node.target)} - {""}
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {_array(each) for each in targets if isinstance(each, ast.Subscript)} - {""}


_VIEWS = frozenset({"numpy", "asarray", "__array__"})
_CONTAINERS = frozenset({"dict", "list", "tuple", "OrderedDict", "ravel", "reshape", "squeeze", "items", "values"})
_COMPARES = frozenset({"subtract", "allclose", "array_equal", "isclose"})
_HOLDS = (ast.Dict, ast.DictComp, ast.ListComp, ast.List, ast.Tuple, ast.GeneratorExp, ast.keyword, ast.Attribute)
_BOTH = 2


def subtracts_kept(tree: SourceTree, lines: set[int]) -> bool:
    """Whether the arrays that some lines take of tensors, without a copy, are kept under two names, and one is
    subtracted from the other."""
    taken = [node for node in tree.nodes if called_name(node) in _VIEWS and getattr(node, "lineno", 0) in lines]
    kept = {keeper for node in taken if (keeper := _keeper(tree, node)) is not None}
    names = {target for target, value in tree.assignments if _is_kept_in(value, kept)}
    holders = {_array(each) for each in names} - {""}
    holders |= set(_passed_on(tree, holders))
    return len(holders) > 1 and any(_is_difference(node, holders) for node in tree.nodes)


def _keeper(tree: SourceTree, node: ast.AST) -> ast.AST | str | None:
    """The expression that a variable is given with an array in it, or the name of the function that returns it; None
    where something else is computed of the array."""
    whole = node
    for around in tree.around(node):
        if isinstance(around, ast.stmt):
            function = tree.scope(node)
            is_returned = isinstance(around, ast.Return) and isinstance(function, ast.FunctionDef)
            return function.name if is_returned and isinstance(function, ast.FunctionDef) else whole
        is_container = isinstance(around, _HOLDS) or called_name(around) in _CONTAINERS
        if not is_container:
            return None
        whole = around
    return None


def _is_kept_in(value: ast.expr, kept: set[ast.AST | str]) -> bool:
    return value in kept or (isinstance(value, ast.Call) and called_name(value) in kept)


def _passed_on(tree: SourceTree, holders: set[str]) -> set[str]:
    """The names by which loops over pairs, and functions that take both, know what is kept."""
    found = set[str]()
    for node in tree.nodes:
        if isinstance(node, (ast.comprehension, ast.For)) and called_name(node.iter) == "zip":
            over, names = node.iter, node.target
            if isinstance(over, ast.Call) and isinstance(names, ast.Tuple) and _are_of(over.args, holders):
                found |= {_array(each) for each in names.elts}
        elif isinstance(node, ast.Call) and _are_of(node.args, holders):
            found |= {
                name
                for each in tree.nodes
                if isinstance(each, ast.FunctionDef) and each.name == called_name(node)
                for name in parameters_of(each)[:_BOTH]
            }
    return found - {""}


def _are_of(given: list[ast.expr], holders: set[str]) -> bool:
    return len({_array(_without_call(each)) for each in given} & holders) >= _BOTH


def _without_call(node: ast.expr) -> ast.expr:
    """``start`` of ``start.values()``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called_name(node) in _CONTAINERS:
        return node.func.value
    return node


def _is_difference(node: ast.AST, holders: set[str]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Call) and called_name(node) in _COMPARES:
        sides = node.args[:_BOTH]
    else:
        return False
    names = {_array(each) for each in sides}
    return len(names) == _BOTH and names <= holders
