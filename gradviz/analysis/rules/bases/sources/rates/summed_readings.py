"""What a program adds to the sums that a schedule is told.

>>> lines = '''total = 0.0
... for x, y in batches:
...     total += loss.item()
... schedule.step(total / len(batches))
... '''.splitlines()
>>> list(added_to_readings(SourceTree(dict(enumerate(lines, start=1))), 4))
['loss.item()']
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree, called_name


def added_to_readings(tree: SourceTree, line: int) -> Iterator[str]:
    """The text of what is added, to any variable of which the ``step()`` on a line is told something."""
    calls = (each for each in tree.nodes if isinstance(each, ast.Call) and each.lineno == line)
    told = [[*call.args, *(each.value for each in call.keywords)] for call in calls if called_name(call) == "step"]
    given = [each for values in told for value in values for each in ast.walk(value)]
    keys = {tree.key_of(each) for each in given if isinstance(each, (ast.Name, ast.Attribute))} - {None}
    for node in tree.nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and tree.key_of(node.target) in keys:
            yield ast.unparse(node.value)
