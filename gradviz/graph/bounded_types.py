"""Numbers with bounds, for the fields of the structures that are read from files.

msgspec refuses a file in which a number is out of its bounds, and names the field; so code that works on what was read
need not check them again. NaN is out of every bounds.
"""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec import Meta

MAX_COUNT = 2**62
"""More bytes than any machine has. Sums and products of a few such numbers can still be converted to float."""

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
"""Elements, bytes, calls."""
PositiveCount = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Index = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
"""Whether the table has such an entry is checked by `gradviz.graph.invariants`."""
LineNumber = Annotated[int, Meta(ge=0, le=10_000_000)]
"""0 where a line is unknown. The lines of a function are looked at one by one."""
NodeCount = Annotated[int, Meta(ge=0, le=10_000_000)]
"""Nodes that one call made. Their sequence numbers are looked at one by one."""
Bits32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Bits64 = Annotated[int, Meta(ge=0)]
"""64 bits. The format of files has no larger numbers, and msgspec no larger bounds."""
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Number = float | int
"""An element of a long list. msgspec would make a float object of each integer for `float` alone; a small integer needs
no memory of its own."""
FiniteNumber = Finite | Annotated[int, Meta(ge=-(2**62), le=MAX_COUNT)]
Magnitude = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
"""A norm, or a time."""
Cosine = Annotated[float, Meta(ge=-1.001, le=1.001)]
"""With room for what rounding adds."""
Decade = Annotated[int, Meta(ge=-400, le=400)]
"""An exponent of ten that float64 has."""
Size = Count | str
"""Of one dimension; a symbolic or ragged one is text."""
Names = Annotated[tuple[str, ...], Meta(min_length=1)]
