"""Reading nodes of the graph, without unpacking what they saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.name_lookup import attribute, attributes_like, find, method

LEAF_SEQUENCE_NR = 2**64 - 1
"""What `sequence_nr_of` answers for ``AccumulateGrad``."""

CHECKPOINT_MODULE = "torch.utils.checkpoint"
"""Where the hooks and records of non-reentrant checkpointing are defined."""


def _missing(_: object = None) -> Any:
    raise AttributeError("this torch does not tell it")  # `check` has refused to record then


_tells_numbers = works("sequence numbers")
peek_sequence_nr: Callable[[], int] = find("torch._C._autograd._get_sequence_nr") if _tells_numbers else _missing
"""The sequence number that the next node of this thread will get."""

sequence_nr_of: Callable[[Any], int] = method("Node._sequence_nr") if _tells_numbers else _missing
"""That of a node."""

_read_metadata = attribute("Node._input_metadata")
_tells_shapes = works("shapes of results")


def input_metadata(node: Any) -> tuple[Any, ...]:
    """Shape, dtype and device of each output of the node's forward; empty where this torch does not tell."""
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
"""Whether raw slots tell what they hold, without unpacking it."""


def raw_slots(node: Any) -> list[str]:
    """Attributes of the node that hand out what it saved as it is kept."""
    return attributes_like("Node._raw_saved_", node) if _has_slots else []


def unpacking_slots(node: Any) -> list[str]:
    """Attributes that unpack what the node saved, and those of its other arguments.

    None where this torch has no raw slots: then nothing tells which of them would unpack.
    """
    return attributes_like("Node._saved_", node) if _has_slots else []


def saved_in(node: Any, slot: str) -> Any:
    """What one of these hands out. Raises `RuntimeError` where an earlier backward freed it."""
    return getattr(node, slot)


class CheckpointRecord:
    """What non-reentrant checkpointing keeps of one call."""

    def __init__(self, record: Any) -> None:
        self._record = record

    def holders(self) -> list[Any]:
        """What stands for each tensor that was given up; None for those that are gone."""
        return [reference() for reference in _read_holders(self._record)]

    def noted(self) -> Sequence[Any]:
        """What was noted of each of them: its shape, among others."""
        return _read_noted(self._record)  # type: ignore[no-any-return]

    def inputs(self) -> Iterator[Any]:
        """Arguments that the call keeps to run again."""
        for saved in _read_inputs(self._record):
            # Newer torches pack them as saved tensors of their own, which must not be unpacked either.
            yield saved.data if hasattr(saved, "unpack_hook") else saved


_read_holders = attribute("_CheckpointFrame.weak_holders")
_read_noted = attribute("_CheckpointFrame.x_metadatas")
_read_inputs = attribute("_CheckpointFrame.saved_args")


def checkpoint_record(values: Iterable[Any]) -> Any:
    """The record among these variables of a hook of checkpointing; None where this torch keeps it elsewhere."""
    if not works("records of checkpoints"):
        return None
    return next((value for value in values if type(value).__name__ == "_CheckpointFrame"), None)
