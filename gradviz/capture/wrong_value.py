"""Adds to a message of msgspec the value that it refused."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gradviz.safe_text import one_line

_PATH = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_MAX_LENGTH = 60


def with_value(message: str, packed: bytes | memoryview) -> str:
    """``Expected `int` >= 0, got -1 - at `$.graphs[0].nodes[3].id```: the message, with the value in the file `packed`.

    The message as it is where it is about no single value: the inner path of a mapping has no keys, and broken
    MessagePack no values.
    """
    found = _PATH.search(message)
    if found is None or ", got" in message or message.startswith("Invalid enum") or _STEP.sub("", found[1]):
        return message
    try:
        value: Any = msgspec.msgpack.decode(packed, strict=False)
        for name, index in _STEP.findall(found[1]):
            value = value[name] if name else value[int(index)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return message  # something else is wrong behind that value, or a key is there twice
    if isinstance(value, dict | list):
        return message
    shown = one_line(repr(value))
    if len(shown) > _MAX_LENGTH:
        shown = f"{shown[:_MAX_LENGTH]}…"
    return f"{message[: found.start()]}, got {shown}{found[0]}"
