"""Reads nodes of the graph without unpacking their saved tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.checkpoint_inputs import inputs_of_checkpoint
from gradviz.recording.torch_access.guarded_unpacking import read_slot, with_guard
from gradviz.recording.torch_access.name_lookup import attribute, attributes_like, find, method
from gradviz.recording.torch_access.own_thread import result_of_own_thread

_Result = TypeVar("_Result")

LEAF_SEQUENCE_NR = 2**64 - 1
"""What `sequence_nr_of` returns for ``AccumulateGrad``."""

CHECKPOINT_MODULE = "torch.utils.checkpoint"
"""Where the hooks and records of non-reentrant checkpointing are defined."""


def _missing(_: object = None) -> Any:
    raise AttributeError("this torch does not tell it")  # `check` has refused to record then


_tells_numbers = works("sequence numbers")
peek_sequence_nr: Callable[[], int] = find("torch._C._autograd._get_sequence_nr") if _tells_numbers else _missing
"""The sequence number that the next node of this thread will get."""

sequence_nr_of: Callable[[Any], int] = method("Node._sequence_nr") if _tells_numbers else _missing
"""The sequence number of a node."""

_read_metadata = attribute("Node._input_metadata")
_tells_shapes = works("shapes of results")


def input_metadata(node: Any) -> tuple[Any, ...]:
    """Shape, dtype and device of each output of the node's forward; empty if this torch does not report them."""
    return _read_metadata(node) if _tells_shapes else ()


_read_class = attribute("Node._forward_cls")
_tells_classes = works("classes of custom functions")


def python_function_class(node: Any) -> type | None:
    """The ``autograd.Function`` of a node that was written in Python, else None."""
    if not _tells_classes:
        return None
    try:
        return _read_class(node)  # type: ignore[no-any-return]
    except AttributeError:
        return None


_has_slots = works("slots of nodes")
TELLS_SAVED_TENSORS = works("saved tensors")
"""Whether it can be told what nodes saved."""
SHOWS_SLOTS = works("slots as stored")
"""Whether raw slots tell what they hold, without unpacking it."""


def raw_slots(node: Any) -> list[str]:
    """Attributes with the node's saved tensors as they are stored, not unpacked."""
    return attributes_like("Node._raw_saved_", node) if _has_slots else []


def unpacking_slots(node: Any) -> list[str]:
    """Attributes that unpack the node's saved tensors, and attributes with its other arguments.

    Empty if this torch has no raw slots: then it is not known which of them would unpack.
    """
    return attributes_like("Node._saved_", node) if _has_slots else []


def saved_in(node: Any, slot: str) -> Any:
    """The content of such an attribute. Raises `RuntimeError` if an earlier backward freed it."""
    return getattr(node, slot)


def stored_in(node: Any, slot: str) -> Any:
    """What a raw slot keeps, as ``data`` and ``unpack_hook``; a tuple for a list, None for nothing.

    To be called inside `reading_slots`. Raises `RuntimeError` as `saved_in` does.
    """
    if SHOWS_SLOTS:
        return getattr(node, slot)
    return read_slot(node, _unpacking_name(slot))


def _unpacking_name(slot: str) -> str:
    """Functions written in Python call theirs otherwise."""
    return "saved_tensors" if slot == "_raw_saved_tensors" else slot.removeprefix("_raw")


def kept_without_hooks(node: Any, slot: str) -> list[Any]:
    """The tensors in a raw slot of a node of ours, which no hook packed.

    To be called inside `away_from_modes`.
    """
    if SHOWS_SLOTS:
        stored = getattr(node, slot)
        slots = stored if isinstance(stored, tuple) else (stored,)
        return [each.data for each in slots if each is not None]
    kept = getattr(node, _unpacking_name(slot))
    return list(kept) if isinstance(kept, (tuple, list)) else [kept]


def away_from_modes(work: Callable[[], _Result]) -> _Result:
    """What `work` gives, which may use `kept_without_hooks`: to unpack is an operation, which modes would see."""
    return work() if SHOWS_SLOTS else result_of_own_thread(work)


def reading_slots(work: Callable[[], _Result]) -> _Result:
    """What `work` gives, which may use `stored_in`."""
    return work() if SHOWS_SLOTS else with_guard(work)


class CheckpointRecord:
    """What non-reentrant checkpointing stores for one call."""

    def __init__(self, record: Any) -> None:
        self._record = record

    def holders(self) -> list[Any]:
        """The object that replaces each tensor that was dropped; None for those that are gone."""
        return [reference() for reference in _read_holders(self._record)]

    def noted(self) -> Sequence[Any]:
        """What was noted about each dropped tensor, such as its shape."""
        return _read_noted(self._record)  # type: ignore[no-any-return]

    def inputs(self) -> Iterator[Any]:
        """Arguments that the call keeps to run again."""
        yield from inputs_of_checkpoint(self._record)


_read_holders = attribute("_CheckpointFrame.weak_holders")
_read_noted = attribute("_CheckpointFrame.x_metadatas")


def checkpoint_record(values: Iterable[Any]) -> Any:
    """The record among the closure variables of a checkpointing hook; None if this torch keeps it elsewhere."""
    if not works("records of checkpoints"):
        return None
    return next((value for value in values if type(value).__name__ == "_CheckpointFrame"), None)
