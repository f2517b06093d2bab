"""The garbage collector is spared large graphs, and the program's garbage is collected as ever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gradviz.collector import MANY, SparedObjects, collector_paused


@pytest.fixture(autouse=True)
def _nothing_spared() -> Iterator[None]:
    """Nothing is spared: the process of these tests may have begun with much that is."""
    gc.unfreeze()
    yield
    gc.unfreeze()


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def objects_in(generation: int) -> set[int]:
    return set(map(id, gc.get_objects(generation=generation)))


def test_many_objects_are_old_from_the_beginning_and_few_are_young() -> None:
    with collector_paused(expected=MANY):
        assert not gc.isenabled()
        of_many: list[list[int]] = [[]]
    assert gc.isenabled()
    assert id(of_many) in objects_in(2)
    with collector_paused(expected=MANY - 1):
        of_few: list[list[int]] = [[]]
    assert id(of_few) not in objects_in(2)


def test_garbage_that_the_program_made_shortly_before_is_freed_before_it_becomes_old() -> None:
    garbage = weakref.ref(Cycle())
    with collector_paused(expected=MANY):
        assert garbage() is None


def test_garbage_among_what_is_old_from_the_beginning_is_freed_with_the_old() -> None:
    with collector_paused(expected=MANY):
        garbage = weakref.ref(Cycle())
    gc.collect(1)
    assert garbage() is not None
    gc.collect()
    assert garbage() is None


def test_what_the_program_spared_itself_stays_spared() -> None:
    gc.freeze()
    spared = gc.get_freeze_count()
    with collector_paused(expected=MANY):
        pass
    assert gc.get_freeze_count() > 0.9 * spared  # some are freed meanwhile
    ours = SparedObjects()
    ours.begin(MANY)
    ours.end()
    assert gc.get_freeze_count() > 0.9 * spared


def test_a_collector_that_the_program_switched_off_stays_off() -> None:
    garbage = weakref.ref(Cycle())
    gc.disable()
    try:
        with collector_paused(expected=MANY):
            pass
        assert not gc.isenabled()
        assert garbage() is not None
    finally:
        gc.enable()


def test_spared_objects_are_looked_through_again_at_the_end_and_what_was_made_since_always_is() -> None:
    ours = SparedObjects()
    garbage_before = weakref.ref(Cycle())
    ours.begin(MANY)
    garbage_since = weakref.ref(Cycle())
    gc.collect()
    assert (garbage_before() is None, garbage_since() is None) == (False, True)
    ours.end()
    ours.end()
    gc.collect()
    assert garbage_before() is None


def test_few_objects_are_not_spared() -> None:
    ours = SparedObjects()
    ours.begin(MANY - 1)
    assert not gc.get_freeze_count()
    ours.end()
