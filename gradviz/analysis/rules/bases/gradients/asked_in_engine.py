"""What a ``grad()`` asks for that hooks and custom functions call, while the engine runs another backward.

No row of the log has it.

>>> tree = SourceTree(dict(enumerate('''def solve(z):
...     start = z.detach()
...     result = step(start)
...     def hook(grad):
...         return grad + torch.autograd.grad(result, start, grad, retain_graph=True)[0]
... '''.splitlines(), start=1)))
>>> line_that_detaches(tree, 5)
2
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree, called_name


def line_that_detaches(tree: SourceTree, line: int) -> int | None:
    """The line that makes what the only ``grad()`` of a line asks for: by a ``detach()`` that is given no gradient."""
    statement = tree.statement_at(line)
    calls = [each for each in (() if statement is None else ast.walk(statement)) if called_name(each) == "grad"]
    if len(calls) != 1:
        return None
    for name in _asked(calls[0]):
        key = tree.key_of(name)
        values = tree.values_of(key)
        if key is not None and len(values) == tree.times_bound(key) == 1 and called_name(values[0]) == "detach":
            return values[0].lineno
    return None


def _asked(call: ast.AST) -> Iterator[ast.expr]:
    """The parts of the second argument."""
    assert isinstance(call, ast.Call)
    given = call.args[1:2] or [each.value for each in call.keywords if each.arg == "inputs"]
    for each in given:
        yield from each.elts if isinstance(each, (ast.Tuple, ast.List)) else (each,)
