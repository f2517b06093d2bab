"""Many parameters named by few words: the modules all of whose parameters are among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence


def whole_modules(some: Sequence[str], every: Iterable[str]) -> tuple[str, ...]:
    """The outermost modules all of whose parameters are among `some`; a parameter of another module by its own name.

    `every` has the names of all other parameters. The order is that of `some`. A name that comes twice counts once.
    """
    counts = Counter(outer for name in {*every, *some} for outer in _outer_names(name))
    among = Counter(outer for name in set(some) for outer in _outer_names(name))
    return tuple(
        dict.fromkeys(next(outer for outer in _outer_names(name) if among[outer] == counts[outer]) for name in some)
    )


def _outer_names(name: str) -> Iterator[str]:
    """``model.fc.weight``: model, model.fc, and the name itself."""
    words = name.split(".")
    return (".".join(words[:count]) for count in range(1, len(words) + 1))
