"""The lines of a program that put a model into training mode, and the one that makes it."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name


def line_that_trains_all(case: Case, row: int) -> Location | None:
    """The line that puts a model into training mode: the only one, or that above the next backward."""
    backward = case.histories.backward_after(row)
    lines = () if backward is None else callers(case.dataflow, backward)
    above = (line_of_train(case, location_of_line(line)) for line in lines)
    return _only_line_of_train(case) or next((line for line in above if line is not None), None)


def is_put_back(case: Case, row: int, path: str) -> bool:
    """Whether some line puts a module into evaluation mode, so that the ``train()`` of another has put it back."""
    name = path.rpartition(".")[2]
    asked = re.compile(rf"\b{re.escape(name)}\.(eval\(\)|train\(False\)|train\(mode=False\))")
    texts = (text for lines in case.capture.sources.values() for text in lines.values())
    return bool(name) and any(map(asked.search, texts)) and line_that_trains_all(case, row) is not None


def is_held_in_evaluation(case: Case) -> bool:
    """Whether the program puts a part of a model into evaluation mode each time that the model is put into training
    mode: in its own ``train()``, or in the statement behind ``model.train()``."""
    for _, tree in own_files(case):
        for node in tree.nodes:
            body = getattr(node, "body", None)
            is_own = isinstance(node, ast.FunctionDef) and node.name == "train"
            if is_own and isinstance(tree.parent(node), ast.ClassDef) and "off" in map(switches, ast.walk(node)):
                return True
            if isinstance(body, list) and any(_is_put_back_at_once(*pair) for pair in pairwise(body)):
                return True
    return False


def _is_put_back_at_once(one: ast.AST, other: ast.AST) -> bool:
    """Whether two statements are ``model.train()`` and ``model.encoder.eval()``."""
    calls = [each.value for each in (one, other) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    return [switches(each) for each in calls] == ["on", "off"] and _model_of(calls[0]) != _model_of(calls[1])


def _model_of(call: ast.Call) -> str:
    return ast.dump(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def switches(node: ast.AST) -> str | None:
    """Whether a call puts a module into training mode, ``on``, or evaluation mode."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    given = [*node.args, *(each.value for each in node.keywords)]
    if called_name(node) == "eval" and not given:
        return "off"
    if called_name(node) != "train":
        return None
    return "off" if given and isinstance(given[0], ast.Constant) and given[0].value is False else "on"


def _only_line_of_train(case: Case) -> Location | None:
    """The line that puts a model into training mode, if the program has one."""
    found = [
        Location(file, number)
        for file, lines in case.capture.sources.items()
        for number, text in lines.items()
        if re.search(r"\.train\((True)?\)", text)
    ]
    return found[0] if len(found) == 1 else None


def line_of_model(case: Case, path: str, used: Location | None) -> Location | None:
    """If a helper function uses the model by another name: the only line that assigns the model's own."""
    name = path.partition(".")[0]
    if used is None or not name.isidentifier() or name in (case.source_line(used) or ""):
        return None
    assigns = re.compile(rf"^\s*(\w+\s*,\s*)*{name}\s*(,\s*\w+\s*)*=[^=]")
    lines = case.capture.sources.get(used.file, {})
    found = [number for number, text in lines.items() if assigns.match(text)]
    return Location(used.file, found[0]) if len(found) == 1 else None


def line_of_train(case: Case, here: Location | None) -> Location | None:
    """The line above, in the same function, that calls ``train()``."""
    for number in range(here.line - 1, max(0, here.line - _LINES_ABOVE), -1) if here is not None else ():
        location = Location(here.file, number) if here is not None else None
        text = case.source_line(location) or ""
        if re.search(r"\.train\((True)?\)", text):
            return location
        if text.lstrip().startswith(("def ", "async def ", "class ")):
            return None
    return None


_LINES_ABOVE = 20
