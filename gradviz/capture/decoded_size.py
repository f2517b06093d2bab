"""How much memory the decoded form of a MessagePack document may need, from its bytes alone.

A document of 10 MB can decode to gigabytes: a structure without any field is one byte in a file, and 168 in memory. So
a file is measured before it is decoded. Every byte counts as if it began a value of the most expensive type that it can
begin, whatever it really stands for: the result is never too small, and two to five times too large for recordings.
"""

from __future__ import annotations

_EACH = 9
"""The byte itself, and a pointer to its value in a list; small integers and single characters exist only once."""
_MORE = (
    (bytes([*range(0x80, 0x90), 0xDE, 0xDF]), 176),  # maps: the largest structure of which all fields have defaults
    (bytes([*range(0x90, 0xA0), 0xDC, 0xDD]), 56),  # lists
    (bytes([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB]), 40),  # texts
    (bytes(range(0xE0, 0xFB)), 32),  # integers below -5
    (bytes([0xD0]), 24),  # integers in two bytes
    (bytes([0xCD, 0xD1]), 16),  # and in three
)
_OTHERS = tuple((bytes(sorted({*range(256)}.difference(kind))), weight) for kind, weight in _MORE)


def max_decoded_size(packed: bytes) -> int:
    """At most so many bytes are in memory when `packed` is decoded, itself included."""
    return _EACH * len(packed) + sum(weight * len(packed.translate(None, others)) for others, weight in _OTHERS)
