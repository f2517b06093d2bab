"""The line that stores samples in a list, found in the source from the line that makes a batch of them.

>>> lines = {1: "memory.append((state, reward))", 2: "S, R = zip(*random.sample(memory, 8))", 3: "S = torch.stack(S)"}
>>> line_of_store(lines, 3)
1
>>> lines = {1: "def take(self):", 2: "    return torch.stack(self.kept)", 4: "self.kept.append(x)", 8: "x = m.take()"}
>>> line_of_store(lines, 8)
4
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location

_MAX_HOPS = 6
_MAX_BODY = 60
_STORES = "append|appendleft|extend|insert"


def line_that_stores(case: Case, batch: Location | None) -> Location | None:
    """The only line that puts something into the list from which a line makes a batch; None if it is unknown."""
    lines = case.capture.sources.get(batch.file, {}) if batch is not None else {}
    number = None if batch is None else line_of_store(lines, batch.line)
    return None if batch is None or number is None else Location(batch.file, number)


def line_of_store(lines: Mapping[int, str], batch: int) -> int | None:
    """The number of that line."""
    names, seen = _names(lines.get(batch, "")), set[str]()
    for _ in range(_MAX_HOPS):
        stores = {number for name in names for number in _stores(lines, name)}
        if stores:
            return stores.pop() if len(stores) == 1 else None
        seen |= names
        texts = [text for name in names for text in (_assignment(lines, name, batch), *_returned(lines, name).values())]
        names = {read for text in texts for read in _names(text)} - seen
    return None


def _stores(lines: Mapping[int, str], name: str) -> list[int]:
    stores = re.compile(rf"(?<![\w]){re.escape(name)}\.({_STORES})\(")
    return [number for number, text in lines.items() if stores.search(text)]


def _assignment(lines: Mapping[int, str], name: str, before: int) -> str:
    """The value of the newest line above another one, that line included, which assigns a name."""
    assigns = re.compile(rf"^\s*([\w., ]+,\s*)?{re.escape(name)}(\s*,[\w., ]+)?\s*=(?!=)(.*)")
    made = (assigns.match(lines[number]) for number in sorted(lines, reverse=True) if number < before)
    return next((found.group(3) for found in made if found is not None), "")


def _returned(lines: Mapping[int, str], function: str) -> dict[int, str]:
    """The lines of a function that begin to return something."""
    defines = re.compile(rf"(\s*)def {re.escape(function)}\(")
    for number, text in lines.items():
        found = defines.match(text)
        if found is not None:
            body = range(number + 1, number + _MAX_BODY)
            ends = (each for each in body if each not in lines or _is_outside(lines[each], len(found.group(1))))
            inside = range(number + 1, next(ends, body.stop))
            return {each: lines[each] for each in inside if lines[each].strip().startswith("return ")}
    return {}


def _is_outside(text: str, indent: int) -> bool:
    return bool(text.strip()) and len(text) - len(text.lstrip()) <= indent


def line_of_data_set(case: Case, taken: Location) -> Location | None:
    """The line with which the only data set of a file returns a sample."""
    lines = case.capture.sources.get(taken.file, {})
    sets = [number for number, text in lines.items() if text.strip().startswith("def __getitem__(")]
    returned = list(_returned(lines, "__getitem__"))
    return Location(taken.file, returned[0]) if len(sets) == len(returned) == 1 else None


def _names(text: str) -> set[str]:
    """The names of variables and attributes that a line reads."""
    try:
        tree: ast.AST = ast.parse(text.strip())
    except (SyntaxError, ValueError):  # a line of a statement that is longer
        return set(re.findall(r"\b[A-Za-z_]\w*\b", text))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
