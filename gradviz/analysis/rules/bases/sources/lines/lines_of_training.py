"""The lines of a program that put a model into training mode, and the one that makes it."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location, location_of_line


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
