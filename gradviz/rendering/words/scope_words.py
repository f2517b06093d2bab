"""The words for what a box stands for: a module call, a run of calls of a function, or a source line."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.graph.model import ModuleScope
from gradviz.graph.query.own_line import line_words
from gradviz.rendering.words.subject_words import SubjectWords
from gradviz.rendering.words.words import shortened
from gradviz.view.model import Item

LONGEST_SOURCE = 48


def relative_path(path: str, around: str) -> str:
    """A dotted path without the part that the box around it shows."""
    return path.removeprefix(f"{around}.") if around else path


def scope_title(subject: SubjectWords, item: Item, number: int) -> str:
    """``h.0`` for a module, ``step()`` for a function, its text for a source line."""
    scope = subject.graph.scopes[number]
    if scope.kind == "function":
        return scope.class_name
    if scope.kind == "line":
        return shortened(_text(subject, scope), LONGEST_SOURCE) or scope.path
    return relative_path(scope.path, subject.enclosing_path(item))


def scope_subtitle(subject: SubjectWords, scope: ModuleScope) -> str:
    """The class of a module, the line that called a function, or where a source line is."""
    if scope.kind == "module":
        return scope.class_name
    line = _line(subject, scope)
    return f"called at {line}" if scope.kind == "function" and line else line


def scope_tooltip(subject: SubjectWords, number: int | None) -> Iterator[str]:
    """What the box or the operation lies in."""
    if number is None:
        return
    scope = subject.graph.scopes[number]
    if scope.kind == "module":
        yield f"module {scope.path} ({scope.class_name})" + (f", call {scope.call + 1}" if scope.call else "")
        return
    line, text = _line(subject, scope), _text(subject, scope)
    if scope.kind == "line":
        yield f"made while {line} ran" + (f": {text}" if text else "")
        return
    yield f"made in {scope.class_name}" + (f", called at {line}" if line else "") + (f": {text}" if text else "")


def _line(subject: SubjectWords, scope: ModuleScope) -> str:
    return "" if scope.call_site is None else line_words(subject.graph.call_sites[scope.call_site])


def _text(subject: SubjectWords, scope: ModuleScope) -> str:
    return "" if scope.call_site is None else subject.source_text(subject.graph.call_sites[scope.call_site])
