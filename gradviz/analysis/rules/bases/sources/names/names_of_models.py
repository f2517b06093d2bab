"""Whether a line calls a model by another name than a second line does."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.finding import location_of_line
from gradviz.analysis.parameters.own_references import OwnReference


def has_another_name(case: Case, reference: OwnReference) -> bool:
    """Whether the line of the reference names something that the line of the other side does not: the second name of
    the model. On one line, whether nothing is called twice."""
    here = case.source_line(location_of_line(reference.line))
    there = case.source_line(location_of_line(reference.other_line))
    if here is None or there is None:
        return True
    if reference.line == reference.other_line:
        called = [name for name in _CALLED.findall(here) if name.partition(".")[0] not in _LIBRARIES]
        return len(called) == len(set(called))
    return bool(_names(here) - _names(there))


def _names(line: str) -> set[str]:
    """The names that a line reads: ``ref`` for ``ref.score(x)``, ``self.ref`` for ``self.ref(x)``."""
    words = (name.split(".") for name in _NAME.findall(_ASSIGNED.sub("", line)))
    return {".".join(each[: 2 if each[0] == "self" else 1]) for each in words} - _LIBRARIES


_NAME = re.compile(r"(?<![\w.)\]])[A-Za-z_][\w.]*")
_CALLED = re.compile(r"(?<![\w.)\]])([A-Za-z_][\w.]*)\(")
_ASSIGNED = re.compile(r"^[\w\s,.\[\]]*=(?!=)")
_LIBRARIES = frozenset({"torch", "F", "nn", "math", "np"})
