"""Lines that turn, shift, cut or erase samples at random: behind a condition that is drawn, or by drawn numbers.

>>> tree = SourceTree(dict(enumerate('''def augmented(x, i):
...     if random.random() < 0.5:
...         x = x.flip(-1)
...     top, left = random.randint(0, 4), random.randint(0, 4)
...     x = x[:, top : top + 8, left : left + 8]
...     return x[i : i + 4].flip(0)
... '''.splitlines(), start=1)))
>>> sorted(random_transforms(tree).items())
[(3, True), (5, False)]
"""

from __future__ import annotations

import ast

from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name

TRANSFORMS = frozenset({
    "flip", "fliplr", "flipud", "roll", "rot90", "getitem", "setitem", "grid_sample", "rotate", "hflip", "vflip",
    "transpose",
})  # fmt: skip
"""By their plain names; ``getitem`` cuts something out, ``setitem`` writes into it."""
_DRAWS = frozenset({
    "rand", "random", "randint", "randrange", "uniform", "choice", "bernoulli", "randn", "integers", "random_integers",
})  # fmt: skip
_TWO_AXES = 2


def random_transforms(tree: SourceTree) -> dict[int, bool]:
    """The lines, each with whether it depends on chance that it runs at all."""
    drawn = _drawn(tree)
    found = dict[int, bool]()
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) in TRANSFORMS:
            is_by_number = any(_is_drawn(tree, each, drawn) for each in [*node.args, *(k.value for k in node.keywords)])
        elif isinstance(node, ast.Subscript):
            is_by_number = _cuts_two_axes(tree, node, drawn)
        else:
            continue
        is_chance = not isinstance(node, ast.Subscript) and _is_by_chance(tree, node, drawn)
        if is_by_number or is_chance:
            found[node.lineno] = found.get(node.lineno, False) or is_chance
    return found


def _drawn(tree: SourceTree) -> set[Key]:
    """Variables that hold a drawn number, or whether one is small."""
    found = set[Key]()
    for target, value in tree.assignments:
        if any(called_name(each) in _DRAWS for each in ast.walk(value)) and _is_number(value):
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {key for each in parts if (key := tree.key_of(each)) is not None}
    return found


def _is_number(value: ast.expr) -> bool:
    """Whether a draw becomes a Python number or a truth value: a generator of Python, ``item()``, or a comparison."""
    calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
    of_torch = any("torch" in ast.unparse(each.func) for each in calls)
    becomes = any(called_name(each) in ("item", "int", "float", "bool", "tolist") for each in calls)
    return not of_torch or becomes or isinstance(value, ast.Compare)


def _is_drawn(tree: SourceTree, value: ast.AST, drawn: set[Key]) -> bool:
    return any(called_name(each) in _DRAWS or tree.key_of(each) in drawn for each in ast.walk(value))


def _is_by_chance(tree: SourceTree, node: ast.AST, drawn: set[Key]) -> bool:
    """Whether a condition around a node, in its function, is drawn."""
    scope = tree.scope(node)
    for around in tree.around(node):
        if around is scope:
            return False
        if isinstance(around, (ast.If, ast.IfExp)) and _is_drawn(tree, around.test, drawn):
            return True
    return False


def _cuts_two_axes(tree: SourceTree, node: ast.Subscript, drawn: set[Key]) -> bool:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    cut = [each for each in parts if isinstance(each, ast.Slice) and _is_drawn(tree, each, drawn)]
    return len(cut) >= _TWO_AXES
