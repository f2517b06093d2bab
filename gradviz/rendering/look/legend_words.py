"""The name of each role in legends, for all formats."""

from __future__ import annotations

from gradviz.rendering.formats import Subject
from gradviz.rendering.look.palette import ROLE_STYLES, Role


def role_words(role: Role, subject: Subject) -> str:
    """The name of a role in the legend of this subject."""
    if role == "root" and subject.graph.backward is None:
        return "root of the graph"
    return _box_words(subject) if role == "box" else ROLE_STYLES[role].name


def _box_words(subject: Subject) -> str:
    scopes = subject.graph.scopes
    boxes = (item for item in subject.view.items if item.kind == "box")
    kinds = {"group" if box.scope is None else scopes[box.scope].kind for box in boxes}
    words = {
        "module": "module call",
        "function": "call of a function",
        "line": "source line",
        "group": "group of operations",
    }
    if len(kinds) == 1:
        return words[kinds.pop()]
    return ROLE_STYLES["box"].name if "module" in kinds else words["group"]
