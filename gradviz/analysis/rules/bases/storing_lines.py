"""The line that stores a result in an object that lives on: ``self.scale[name] = ...``, ``self.trace.append(...)``.

>>> [stores(each, "h") for each in ("self.h = f(x)", "self.h[0] += x", "self.h, y = f()", "self.h.append(x)")]
[True, True, True, True]
>>> [stores(each, "h") for each in ("if self.h == x:", "f(self.h, beta=1)", "y = self.h * 3", "self.h2 = x", "h = x")]
[False, False, False, False, False]
"""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.graph.model import CallSite


def line_that_stores(case: Case, row: int, path: str) -> CallSite | None:
    """The innermost line that led to a call, and that stores something in an attribute; None if there is none.

    Args:
        path: What holds the result of the call: ``balance.scale['depth']``.
    """
    attribute = _ATTRIBUTE.search(path)
    for line in callers(case.dataflow, row) if attribute is not None else ():
        if attribute is not None and stores(case.source_line(location_of_line(line)) or "", attribute[1]):
            return line
    return None


def stores(text: str, attribute: str) -> bool:
    """Whether a line of source stores something in an attribute, or in the list or dict that it holds."""
    assigned = rf"^[^=(#]*\.{attribute}\b(?:[^=(#]*[^=(#!<>])?=(?!=)"
    return re.search(rf"{assigned}|\.{attribute}\b(?:\[[^\]]*\])?\.(?:{_METHODS})\(", text) is not None


_ATTRIBUTE = re.compile(r"\.(\w+)(?:\[[^\]]*\])*$")
_METHODS = "append|appendleft|add|extend|insert|update|setdefault|push"


def next_in_function(case: Case, made: Location, lines: tuple[Location, ...]) -> Location | None:
    """The first of several lines that stands below another one, in the same function."""
    around = function_around(case.capture.sources.get(made.file, {}), made.line) or ()
    below = [each for each in lines if each.file == made.file and each.line > made.line and each.line in around]
    return min(below, default=None)
