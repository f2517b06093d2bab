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
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(_with_writable_texts(msgspec.to_builtins(value)))


def json_text(document: object) -> str:
    """`document` as JSON for programs, one line for each entry."""
    return json_escaped(msgspec.json.format(encoded(document, msgspec.json.encode), indent=1).decode()) + "\n"


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
