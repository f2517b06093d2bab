"""Encodes recordings to bytes, even if they contain text that UTF-8 cannot hold.

Python represents the bytes of a file name that is not UTF-8 as lone surrogates, and a script's own texts may contain
them as well. They are written as ``\\udce4``: the recording of a long run is worth more than one letter of a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gradviz.safe_text import json_escaped


def encoded(value: object, encode: Callable[[Any], bytes]) -> bytes:
    """`value` as `encode` writes it: `msgspec.msgpack.encode` or `msgspec.json.encode`."""
    if _MAKES_NEW_EMPTY_TUPLES:
        _share_empty_tuples(value)
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(_with_writable_texts(msgspec.to_builtins(value)))


def json_text(document: object) -> str:
    """`document` as JSON for programs, one line for each entry."""
    return json_escaped(msgspec.json.format(encoded(document, msgspec.json.encode), indent=1).decode()) + "\n"


_EMPTY: tuple[object, ...] = ()
_MAKES_NEW_EMPTY_TUPLES = tuple(each for each in _EMPTY) is not _EMPTY
"""Whether an empty tuple may be another object than ``()``, as in Python 3.10.

msgspec leaves out a field that is its default by identity: the same graph would be written with empty fields after
a recording, and without them after it was read from a file.
"""


def _share_empty_tuples(value: object) -> None:
    """Put ``()`` in the place of each equal field of the structures in `value`, which stay what they are."""
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple | list):
            waiting.extend(entry for entry in each if isinstance(entry, _CONTAINERS))
        elif isinstance(each, dict):
            waiting.extend(entry for entry in each.values() if isinstance(entry, _CONTAINERS))
        elif isinstance(each, msgspec.Struct):
            for name in each.__struct_fields__:
                entry = getattr(each, name)
                if isinstance(entry, tuple) and not entry:
                    msgspec.structs.force_setattr(each, name, _EMPTY)
                elif isinstance(entry, _CONTAINERS):
                    waiting.append(entry)


_CONTAINERS = (msgspec.Struct, tuple, list, dict)


def writable(text: str) -> str:
    """A text as it is read back from the output of `encoded`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _with_writable_texts(value: Any) -> Any:
    """Recursive, but only as deep as the structures of a capture are nested: graphs are tables."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, dict):
        return {_with_writable_texts(key): _with_writable_texts(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_with_writable_texts(entry) for entry in value]
    return value
