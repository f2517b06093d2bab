"""Sizes of memory as people write them: ``2GiB``, ``512 MB``, ``1000000``."""

from __future__ import annotations

import re

from gradviz.errors import BadInput

_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def bytes_in(text: str, what: str) -> int:
    """How many bytes; ``GB`` are 1000 MB, ``GiB`` and ``G`` 1024 MiB. Raises `BadInput`, naming `what`, for others."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise BadInput(f"{what} {text!r} is no size", hint="write it as 2GiB, 512MB or a number of bytes")
    number, unit, is_binary = found.groups()
    is_decimal = bool(unit) and not is_binary and text.strip().lower().endswith("b")
    return int(float(number) * (1000 if is_decimal else 1024) ** _POWERS[unit.lower()])
