"""Reads keywords that say what to show of a graph; Python and the command line have the same.

The table `KEYWORDS` lists them. Bad values are found here, so that a mistake is one clear line and not a failure inside
folding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gradviz.errors import BadInput, near_matches
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from gradviz.view.select.selection import SelectOptions

_Reader = Callable[[str, object], object]


@dataclass(frozen=True, slots=True)
class Keyword:
    """Which option gets the value of a keyword, and how it is read."""

    part: Literal["fold", "select", "view"]
    field: str
    read: _Reader


def view_options(keywords: Mapping[str, object]) -> ViewOptions:
    """The options that `keywords` give; None is the same as leaving a keyword out.

    Raises `BadInput` for an unknown keyword, with near matches, and for a value of the wrong type or range.
    """
    given: dict[str, dict[str, Any]] = {"fold": {}, "select": {}, "view": {}}
    for name, value in keywords.items():
        if name not in KEYWORDS:
            raise BadInput(f"there is no option {name!r}", hint=near_matches(name, KEYWORDS))
        if value is not None:
            keyword = KEYWORDS[name]
            given[keyword.part][keyword.field] = keyword.read(name, value)
    return ViewOptions(select=SelectOptions(**given["select"]), fold=FoldOptions(**given["fold"]), **given["view"])


def _count(minimum: int) -> _Reader:
    def read(name: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
            return value
        raise BadInput(f"{name}={value!r} is not a whole number from {minimum} on")

    return read


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise BadInput(f"{name}={value!r} is neither True nor False")


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise BadInput(f"{name}={value!r} is not text")


def _texts(name: str, value: object) -> tuple[str, ...]:
    """Read one text as a list of one."""
    texts = (value,) if isinstance(value, str) else value
    if isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise BadInput(f"{name}={value!r} is neither text nor a list of texts")


def _pair(name: str, value: object) -> tuple[str, ...]:
    texts = _texts(name, value)
    if len(texts) != 2:
        raise BadInput(f"{name}={value!r} does not have two names", hint='write path=("inputs", "loss")')
    return texts


KEYWORDS: dict[str, Keyword] = {
    "depth": Keyword("fold", "depth", _count(0)),
    "unfold": Keyword("fold", "unfold", _texts),
    "fold": Keyword("fold", "fold", _texts),
    "show_all": Keyword("fold", "show_all", _flag),
    "plumbing": Keyword("fold", "show_plumbing", _flag),
    "constants": Keyword("fold", "show_constants", _flag),
    "max_items": Keyword("fold", "max_items", _count(1)),
    "group_by": Keyword("view", "group_by", _text),
    "path": Keyword("select", "path", _pair),
    "around": Keyword("select", "around", _text),
    "radius": Keyword("select", "radius", _count(0)),
    "start": Keyword("select", "start", _text),
    "downstream": Keyword("select", "downstream", _flag),
    "find": Keyword("view", "find", _text),
    "only_trainable": Keyword("select", "only_trainable", _flag),
    "hide": Keyword("select", "hide", _texts),
}
"""Every keyword. Names are those of the command line, with ``_`` for ``-``; but ``--all`` is ``show_all``, and
``--from`` is ``start``, with ``downstream`` where there is ``--reverse``."""
