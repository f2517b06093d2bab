"""The lines that write a key of a dict, as a text or as a text with values in it.

>>> tree = SourceTree({1: 'mods[f"layers.{i}.scale"] = gain(z)', 2: 'more = {"shift": b, **{f"{k}.w": v for k in x}}'})
>>> [(each.line, each.text) for key in ("layers.0.scale", "shift", "a.w") for each in lines_of_key(tree, key)]
[(1, 'layers.{i}.scale'), (2, 'shift'), (2, '{k}.w')]
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, is_read, names_in


class WrittenKey(Struct, frozen=True, eq=False):
    """A place of the source that gives a dict a value for a key."""

    line: int
    text: str
    """As it is written: ``layers.{i}.scale``."""
    value: ast.expr


def lines_of_key(tree: SourceTree, key: str) -> Iterator[WrittenKey]:
    """The places of a file that may write a key."""
    for node in tree.nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                places = [each for each in targets if isinstance(each, ast.Subscript)]
                pairs = [(each.slice, value) for each in places]
            case ast.Dict(keys=keys, values=values):
                pairs = [(each, value) for each, value in zip(keys, values, strict=True) if each is not None]
            case ast.DictComp(key=one, value=value):
                pairs = [(one, value)]
            case ast.Call(func=ast.Name(id="dict"), keywords=given):
                yield from (WrittenKey(each.lineno, key, each.value) for each in given if each.arg == key)
                continue
            case _:
                continue
        for written, value in pairs:
            text = _text(written)
            if text is not None and _pattern(written).fullmatch(key):
                yield WrittenKey(written.lineno, text, value)


def _text(written: ast.expr) -> str | None:
    if isinstance(written, ast.Constant):
        return written.value if isinstance(written.value, str) else None
    if not isinstance(written, ast.JoinedStr) or not any(map(_is_fixed, written.values)):
        return None
    return "".join(
        str(each.value) if isinstance(each, ast.Constant) else f"{{{ast.unparse(each.value)}}}"
        for each in written.values
        if isinstance(each, (ast.Constant, ast.FormattedValue))
    )


def _is_fixed(part: ast.expr) -> bool:
    """Whether a part of a text says something by itself."""
    return isinstance(part, ast.Constant) and any(map(str.isalpha, str(part.value)))


def _pattern(written: ast.expr) -> re.Pattern[str]:
    parts = written.values if isinstance(written, ast.JoinedStr) else [written]
    return re.compile("".join(re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".+" for each in parts))


def expressions_behind(tree: SourceTree, value: ast.expr) -> Iterator[ast.expr]:
    """A value, and what the same function has given to the variables in it, and to those in that."""
    given = defaultdict[str, list[ast.expr]](list)
    for node in ast.walk(tree.scope(value)):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(node, ast.Assign) and isinstance(target, (ast.Name, ast.Tuple, ast.List)):
                for name in names_in(target):
                    given[name].append(node.value)
    waiting, known = [value], set[str]()
    while waiting:
        each = waiting.pop()
        yield each
        new = names_in(each) - known
        known |= new
        waiting += [behind for name in sorted(new) for behind in given[name]]


def reads_attribute(tree: SourceTree, owner: str, name: str) -> bool:
    """Whether the code of a class reads an attribute of its objects, or asks for it by its name."""
    for node in tree.nodes:
        is_own = isinstance(node, ast.Attribute) and node.attr == name and is_read(node)
        is_asked = isinstance(node, ast.Constant) and node.value == name
        if is_own or is_asked:
            around = [each for each in tree.around(node) if isinstance(each, ast.ClassDef)]
            if any(each.name == owner for each in around):
                return True
    return False
