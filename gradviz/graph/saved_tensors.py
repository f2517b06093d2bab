"""What nodes keep for their backward, and in which storages: the memory of a graph, as data.

A *saved tensor* is a slot of one node. Several of them may be views of one *storage*, and memory is only counted
right once for each storage: so a saved tensor refers to a place in `Graph.storages` by index.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.tensor_facts import TensorFacts

StorageKind = Literal["parameter", "buffer", "input", "intermediate"]
"""``input``: the program held it before the forward computation began; ``intermediate``: that made it."""

KeptIn = Literal["slot", "ctx", "hook", "checkpoint"]
"""A node's own slot; an attribute of a custom function's ``ctx``; a variable that a hook captured; what
non-reentrant checkpointing keeps to compute its part again."""

SavedState = Literal["held", "recomputed", "freed", "unknown"]
"""``recomputed``: checkpointing gave it up and computes it again in backward; ``freed``: an earlier backward took it;
``unknown``: a hook packed it into something that cannot be sized without unpacking."""


class SavedTensor(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """One tensor that a node keeps, or would have kept."""

    slot: str
    """torch's name without its prefix: ``self``, ``result``, ``tensors[1]``; for ctx and hooks, the variable."""
    tensor: TensorFacts | None = None
    bytes: int = 0
    """Elements times their size; of a view, less than its storage has."""
    storage: int | None = None
    """Index in `Graph.storages`; None where this slot holds no memory, or nobody can tell which."""
    kept_in: KeptIn = "slot"
    state: SavedState = "held"
    packed_by: str | None = None
    """``checkpoint``, ``offload`` (torch's ``save_on_cpu``), or the qualified name of the user's unpack hook."""
    source: int | None = None
    """Id of the node that produced the tensor, where that belongs to the graph."""
    source_nr: int = 0
    """Which of that node's outputs it is."""
    saved_version: int | None = 0
    """The tensor's version when it was saved; None where torch tells it only by unpacking."""
    version: int | None = 0
    """Its version when the graph was recorded; None for tensors that do not count them."""
    value: TensorFigures | None = None
    """Its figures and every number in it, with ``--values``, where it is small and nothing else in the graph tells
    them: the 3 of ``x * 3``, a mask that a custom function keeps."""

    @property
    def is_changed(self) -> bool:
        """True for one that is known to have been written to since it was saved."""
        return self.saved_version is not None and self.version is not None and self.saved_version != self.version


class Storage(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """One block of memory under one or more tensors."""

    bytes: int
    device: str = "cpu"
    kind: StorageKind = "intermediate"
    names: tuple[str, ...] = ()
    """Parameters, buffers and variables that hold the same storage."""
    made_before: bool = False
    """True where it was there when the forward computation began."""


class TorchObjects(Struct, frozen=True, gc=False):
    """Objects of torch's own that a graph keeps, beside the data of tensors."""

    what: str
    """``nodes``; ``slots``, the places in them for saved tensors; ``tensors``, ``views``, and ``results``, which have
    no history of their own; ``storages``; or the name of a node that takes more than others, for what it takes more.
    """
    count: int
    bytes_of_one: int = 0
    """What the smallest of this sort takes, measured in the process that was recorded."""


class OlderGraph(Struct, frozen=True, gc=False):
    """Tensors of one variable that were computed before this graph and still hold a graph of their own."""

    name: str
    tensors: int = 1
    """More than one for a list of losses, for example."""


class AllocatorReading(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """What the allocator of one device had given out when forward began, and when backward was called."""

    device: str
    allocator: str
    """Where the figures come from: ``malloc``, ``torch.cuda.memory_allocated``."""
    before: int
    after: int
    freed: int = 0
    """Bytes of known tensors that were there before, and are gone: old gradients, for example."""
    block: int = 1
    """The allocator gives out multiples of so many bytes."""
    imported_modules: int = 0
    """Python modules that were imported meanwhile: their code takes memory, too."""
    objects: tuple[TorchObjects, ...] = ()
    """Part of what was given out, where it comes from the C library."""
