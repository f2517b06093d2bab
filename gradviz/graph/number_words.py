"""Words for counts, for positions in a sequence, for sizes of memory and for times."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 operation``, ``12 operations``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(index: int) -> str:
    """The word for an index that begins at 0: ``first``, ``number 11``."""
    return _ORDINALS[index] if 0 <= index < len(_ORDINALS) else f"number {index + 1}"


# Sizes of memory.


def byte_words(size: int) -> str:
    """``512 B``, ``1.50 MiB``: three digits, in the units of torch's own messages; ``−1.50 MiB`` for differences."""
    value, unit = float(abs(size)), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 999.5:
            break
        value, unit = value / 1024, larger
    digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{'−' if size < 0 else ''}{value:.{digits}f} {unit}"


def seconds_words(seconds: float) -> str:
    """``35 µs``, ``1.24 ms``, ``2.5 s``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
