"""The arguments that a non-reentrant checkpoint keeps, which torch has kept in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradviz.recording.torch_access.guarded_unpacking import read_slot
from gradviz.recording.torch_access.name_lookup import attribute

_read_arguments = attribute("_CheckpointFrame.saved_args")
_read_saver = attribute("_CheckpointFrame.input_saver")


def inputs_of_checkpoint(record: Any) -> Iterator[Any]:
    """Of its record; where slots do not show what they hold, to be called under `with_guard`."""
    if hasattr(record, "saved_args"):
        for saved in _read_arguments(record):
            # They are packed as saved tensors of their own, which must not be unpacked either.
            yield saved.data if hasattr(saved, "unpack_hook") else saved
        return
    # Older torches keep them as what a node saved; the first is an empty tensor of torch's own.
    node = _read_saver(record).grad_fn
    stored = node._raw_saved_tensors
    if stored and not hasattr(stored[0], "data"):
        stored = read_slot(node, "saved_tensors")
        stored = stored if isinstance(stored, tuple) else ()  # a hook packed them
    yield from (each.data for each in stored[1:])
