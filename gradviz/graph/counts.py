"""Numbers of things in words."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 operation``, ``12 operations``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
