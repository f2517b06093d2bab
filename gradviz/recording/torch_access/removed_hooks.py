"""Removes hooks of gradviz, also while torch runs over the table that they are in.

torch calls the hooks on all modules and optimizers from a loop over their table, and raises ``OrderedDict mutated
during iteration`` if one was removed meanwhile. The step at which a recording ends is noticed by such a hook. Where the
program goes on for the other ranks of its job, the hooks are therefore replaced by one that does nothing; they are
removed when the recording is stopped again, which is at the end of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gradviz.recording.torch_access.tensors import hook_table_of

_is_in_loop = False
_silenced: list[Any] = []


@contextmanager
def hooks_in_use() -> Iterator[None]:
    """Inside, torch may be in a loop over the hooks that are removed."""
    global _is_in_loop
    _is_in_loop = True
    try:
        yield
    finally:
        _is_in_loop = False


def remove_hooks(handles: Iterable[Any]) -> None:
    """Remove the hooks with these handles; until the next call, they only do nothing if torch may be calling them."""
    if not _is_in_loop:
        while _silenced:
            _silenced.pop().remove()
    for handle in handles:
        table = hook_table_of(handle) if _is_in_loop else None
        if table is None:
            handle.remove()
        elif handle.id in table:
            table[handle.id] = _nothing
            _silenced.append(handle)


def _nothing(*_: Any, **__: Any) -> None:
    """The program goes on, unrecorded."""
