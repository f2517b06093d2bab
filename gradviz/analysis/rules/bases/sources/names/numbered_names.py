"""Names that a program lists and numbers from 0: ``{name: i for i, name in enumerate(["red", "blue"])}``.

>>> tree = SourceTree(dict(enumerate('''COLORS = ["red", "blue"]
... CODE = {name: i for i, name in enumerate(COLORS)}
... '''.splitlines(), start=1)))
>>> list(lists_numbered_from_zero(tree))
[['red', 'blue']]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name, tree_of

_NO_ITEMS = ("unk", "oov", "pad", "none", "null", "missing", "other", "blank", "mask", "empty", "rare", "n/a")
_FILLING_WORDS = ("pad", "mask", "fill", "zip_longest", "missing", "unknown", "oov")


def item_with_number(case: Case, size: int, number: int) -> str | None:
    """The name that has a number in a list of so many names, unless it stands for no item or an unknown one."""
    for lines in case.files_of_program.values():
        for names in lists_numbered_from_zero(tree_of(lines)):
            if len(names) != size:
                continue
            name = names[number].strip().lower()
            if name[:1].isalpha() and not name.startswith(_NO_ITEMS):
                return names[number]
    return None


def numbering_without_padding(case: Case) -> Location | None:
    """The line that numbers what the data have from 0, in a program that nowhere speaks of padding or masks, but for
    ``padding_idx``, and joins nothing to fill sequences up."""
    found = None
    for file, lines in case.files_of_program.items():
        tree = tree_of(lines)
        for node in tree.nodes:
            if _speaks_of_padding(node) or _is_special_item(tree, node):
                return None
            listed = _numbered(node) if isinstance(node, ast.DictComp) else None
            if listed is not None and not _names(listed):
                found = found or Location(file, listed.lineno)
    return found


def _speaks_of_padding(node: ast.AST) -> bool:
    """Whether a name does so, or a list is repeated, as one that fills up is: ``ids + [0] * missing``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return any(isinstance(side, ast.List) for side in (node.left, node.right))
    name = last_name(node) or (node.arg if isinstance(node, ast.arg) else "")
    return any(word in name.lower() for word in _FILLING_WORDS)


def _is_special_item(tree: SourceTree, node: ast.AST) -> bool:
    """Whether a text stands for no item, as ``"<s>"``, ``"pad"`` and ``""`` in a list, or put before one."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    text = node.value.lower().strip()
    is_listed = isinstance(tree.parent(node), (ast.List, ast.Tuple, ast.Dict, ast.Assign, ast.Subscript))
    return text.startswith(_NO_ITEMS) or (is_listed and not text[:1].isalnum())


def lists_numbered_from_zero(tree: SourceTree) -> Iterator[list[str]]:
    """The lists that a program writes out, of which it looks up the number of a name: with a dictionary of numbers, or
    with ``index()``."""
    for node in tree.nodes:
        listed = _numbered(node)
        if listed is None:
            continue
        key = tree.key_of(listed)
        values = [listed] if key is None else tree.values_of(key)
        names = _names(values[0]) if len(values) == 1 else []
        if names:
            yield names


def _numbered(node: ast.AST) -> ast.expr | None:
    """What a part of the program numbers from 0."""
    if isinstance(node, ast.DictComp) and len(node.generators) == 1:
        made, target = node.generators[0].iter, node.generators[0].target
        is_pair = isinstance(target, ast.Tuple) and len(target.elts) == len(("number", "name"))
        is_from_zero = isinstance(made, ast.Call) and len(made.args) == 1 and not made.keywords
        if isinstance(made, ast.Call) and isinstance(target, ast.Tuple) and is_pair and is_from_zero:
            number, name = map(ast.unparse, target.elts)
            is_kept = (ast.unparse(node.key), ast.unparse(node.value)) == (name, number)
            return made.args[0] if called_name(made) == "enumerate" and is_kept else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "index":
        return node.func.value if len(node.args) == 1 else None
    if isinstance(node, ast.Call) and called_name(node) == "dict" and len(node.args) == 1:
        made = node.args[0]
        is_zip = isinstance(made, ast.Call) and called_name(made) == "zip" and len(made.args) > 1
        if isinstance(made, ast.Call) and is_zip and ast.unparse(made.args[1]).startswith(("range(len(", "count()")):
            return made.args[0]
    return None


def _names(value: ast.expr) -> list[str]:
    """The names in a list that is written out, or in one line of text that is split."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "split":
        text = value.func.value
        return text.value.split() if isinstance(text, ast.Constant) and isinstance(text.value, str) else []
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return list(value.value)
    listed = value.elts if isinstance(value, (ast.List, ast.Tuple)) else []
    return [each.value for each in listed if isinstance(each, ast.Constant) and isinstance(each.value, str)]
