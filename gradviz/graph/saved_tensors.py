"""The memory of a graph: tensors that nodes save for their backward, and the storages of these.

A *saved tensor* is a slot of one node. Several of them may be views of one *storage*, and memory is only counted
correctly once for each storage: so a saved tensor refers to `Graph.storages` by index.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, Index, PositiveCount
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.tensor_facts import TensorFacts

StorageKind = Literal["parameter", "buffer", "input", "intermediate"]
"""``input``: the program held it before forward began; ``intermediate``: forward made it."""

KeptIn = Literal["slot", "ctx", "hook", "checkpoint"]
"""A node's own slot; an attribute of a custom function's ``ctx``; a variable that a hook captured; a tensor that
non-reentrant checkpointing keeps to recompute its part."""

SavedState = Literal["held", "recomputed", "freed", "unknown"]
"""``recomputed``: checkpointing dropped it and computes it again in backward; ``freed``: an earlier backward freed it;
``unknown``: a hook packed it into an object whose size is known only after unpacking."""


class SavedTensor(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """One tensor that a node keeps, or would have kept."""

    slot: str
    """torch's name without its prefix: ``self``, ``result``, ``tensors[1]``; for ctx and hooks, the variable."""
    tensor: TensorFacts | None = None
    bytes: Count = 0
    """Elements times their size; for a view, less than its storage has."""
    storage: Index | None = None
    """Index in `Graph.storages`; None where this slot holds no memory, or its storage is unknown."""
    kept_in: KeptIn = "slot"
    state: SavedState = "held"
    packed_by: str | None = None
    """``checkpoint``, ``offload`` (torch's ``save_on_cpu``), or the qualified name of the user's unpack hook."""
    source: Index | None = None
    """Id of the node that produced the tensor, if it belongs to the graph."""
    source_nr: Index = 0
    """Which of that node's outputs it is."""
    saved_version: Count | None = 0
    """The tensor's version when it was saved; None where torch tells it only after unpacking."""
    version: Count | None = 0
    """Its version when the graph was recorded; None for tensors without version counter."""
    value: TensorFigures | None = None
    """Its statistics and every number in it, with ``--values``, if it is small and the graph has them nowhere else: the
    3 of ``x * 3``, a mask that a custom function keeps."""

    @property
    def is_changed(self) -> bool:
        """True for a tensor that was changed after it was saved, as far as known."""
        return self.saved_version is not None and self.version is not None and self.saved_version != self.version


class Storage(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """One block of memory that one or more tensors use."""

    bytes: Count
    device: str = "cpu"
    kind: StorageKind = "intermediate"
    names: tuple[str, ...] = ()
    """Parameters, buffers and variables that hold the same storage."""
    made_before: bool = False
    """True where it existed when forward began."""


class TorchObjects(Struct, frozen=True, gc=False):
    """Objects of torch that a graph keeps, beside the data of tensors."""

    what: str
    """``nodes``; ``slots``, the slots in them for saved tensors; ``tensors``, ``views``, and ``results``, which have no
    ``grad_fn``; ``storages``; or the name of a node type that needs more memory than others, for the difference."""
    count: Count
    bytes_of_one: Count = 0
    """Size of the smallest object of this kind, measured in the recorded process."""


class OlderGraph(Struct, frozen=True, gc=False):
    """Tensors of one variable that were computed before this graph and still hold another graph."""

    name: str
    tensors: Count = 1
    """More than one for a list of losses, for example."""


class AllocatorReading(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """What the allocator of one device had allocated when forward began, and when backward was called."""

    device: str
    allocator: str
    """The source of the numbers: ``malloc``, ``torch.cuda.memory_allocated``."""
    before: Count
    after: Count
    freed: Count = 0
    """Bytes of known tensors that existed before and are freed: old gradients, for example."""
    block: PositiveCount = 1
    """The allocator allocates multiples of this many bytes."""
    imported_modules: Count = 0
    """Python modules that were imported in between: their code needs memory, too."""
    objects: tuple[TorchObjects, ...] = ()
    """Part of the allocated memory, if it comes from the C library."""
