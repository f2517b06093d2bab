"""Spares Python's garbage collector the search through large graphs.

A large graph is a million small objects, none of them garbage. The collector would look through all of them again and
again: of a recording of 50,000 operations it took a third.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 20_000
"""For fewer objects, the collector is faster than what spares it the work."""


@contextmanager
def collector_paused(expected: int = 0) -> Iterator[None]:
    """Pause the collector while many objects are made; if `MANY` are `expected`, it does not look through them later.

    They are then counted as old from the beginning. What the program made shortly before is looked through first, as
    usual, so that its garbage does not become old with them.
    """
    was_on = gc.isenabled()
    is_large = was_on and expected >= MANY
    if is_large:
        gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if is_large and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if was_on:
            gc.enable()


def count_as_old() -> None:
    """What exists now is kept for long: the collector does not look through all of it again for each quarter that is
    added. Garbage that was made shortly before is collected first."""
    if gc.isenabled() and not gc.get_freeze_count():
        gc.collect(1)
        gc.freeze()
        gc.unfreeze()


def spare_the_end() -> None:
    """When the process ends, what exists then is not looked through for garbage, which would take several searches
    through all of a recording. Python does not promise to finalize objects that still exist at its end.

    Call this before the program runs: what it registers for the end runs first, and may look at its own objects.
    """
    atexit.register(gc.freeze)


class SparedObjects:
    """What exists at `begin` is not looked through until `end`, if it is `MANY` objects; what is made since is."""

    def __init__(self) -> None:
        self._is_sparing = False

    def begin(self, count: int) -> None:
        """`count` objects of a graph exist. Nothing happens if the program spares objects itself, as before a fork."""
        if count >= MANY and not gc.get_freeze_count():
            gc.freeze()
            self._is_sparing = True

    def end(self) -> None:
        """Safe to call twice."""
        if self._is_sparing:
            self._is_sparing = False
            gc.unfreeze()
