"""The tensors without gradient that the operations of a compiled region take, named as in uncompiled code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import torch
from msgspec.structs import replace

from gradviz.graph.model import Constant
from gradviz.recording.compiled.region_replay import Replay, part_of_fake
from gradviz.recording.forward.forward_log import CompiledCall, SeenConstant
from gradviz.recording.forward.memory_parts import MemoryPart
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.dynamo.dynamo_graphs import TensorInput, TracedGraph
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.graph_tables import ConstantTable


class RegionConstant(NamedTuple):
    """One of them."""

    constant: Constant
    logged: int | None = None
    """Its index in the log, if it is an input of the region: other operations of the graph may take it, too."""


class RegionConstants:
    """Each of them once.

    A tensor that the region got is known from its call. One that the region makes is a fake tensor of the replay: it
    may be a part or a copy of what the region got, and has no name otherwise.

    Args:
        call: what the region got; None if its call was not seen.
        known: the constants of the graph.
    """

    def __init__(
        self,
        traced: TracedGraph,
        replay: Replay,
        call: CompiledCall | None,
        known: ConstantTable,
        modules: ModuleNames,
        facts: FactsTable,
    ) -> None:
        self.found: list[RegionConstant] = []
        self._indices: dict[int, int] = {}
        self._traced, self._replay, self._call = traced, replay, call
        self._known, self._modules, self._facts = known, modules, facts
        self._inputs: dict[int, int] = {}
        """Inputs by the ``id()`` of the tensor that the replay had for each."""
        self._owners: dict[int, tuple[int, MemoryPart]] = {}
        """By the address of its memory in the replay: an input, and where it lies there."""
        for index, tensor in enumerate(replay.tensors[0]):
            if isinstance(tensor, torch.Tensor):
                self._inputs[id(tensor)] = index
                part = part_of_fake(tensor)
                if part is not None:
                    self._owners[part.address] = index, part

    def indices_of(self, tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
        """Indices of tensors of the replay in `found`; each is added when first needed."""
        distinct = {id(each): each for each in tensors}
        for key, tensor in distinct.items():
            if key not in self._indices:
                self._indices[key] = len(self.found)
                self.found.append(self._constant(tensor))
        return tuple(self._indices[key] for key in distinct)

    def _constant(self, tensor: torch.Tensor) -> RegionConstant:
        index = self._inputs.get(id(tensor))
        if index is not None:
            logged = self._call.constants[index] if self._call is not None else None
            seen = self._seen(index)
            return RegionConstant(self._as_traced(index, tensor) if seen is None else self._named(seen), logged)
        facts = replace(self._facts.of_tensor(tensor), type_name="Tensor")
        part = part_of_fake(tensor)
        real = None if part is None else self._real_part(part)
        if real is not None:
            return RegionConstant(self._named(SeenConstant(_no_tensor, facts, real)))
        words = None if part is None else self._replay.copies.words_of(part, self._words_of)
        return RegionConstant(Constant(facts, names=() if words is None else (words,)))

    def _named(self, seen: SeenConstant) -> Constant:
        return self._known.names.constant(seen)

    def _seen(self, index: int) -> SeenConstant | None:
        """What the log has about an input of the region."""
        logged = self._call.constants[index] if self._call is not None else None
        return self._known.seen(logged) if logged is not None else None

    def _real_part(self, part: MemoryPart) -> MemoryPart | None:
        """The part of the program's memory for a part of an input of the replay; None for other memory."""
        index, whole = self._owners.get(part.address, (None, None))
        seen = None if index is None else self._seen(index)
        if whole is None or seen is None or seen.part is None:
            return None
        offset = seen.part.offset + part.offset - whole.offset
        return MemoryPart(seen.part.storage, seen.part.address, part.shape, part.stride, offset)

    def _words_of(self, part: MemoryPart) -> str | None:
        real = self._real_part(part)
        return None if real is None else self._known.names.words_of(real)

    def _as_traced(self, index: int, tensor: torch.Tensor) -> Constant:
        """An input of a call that was not seen, as Dynamo saw it when it traced the code."""
        given = self._traced.inputs[index]
        assert isinstance(given, TensorInput), "the replay made a tensor of it"
        facts = replace(self._facts.of_tensor(tensor), type_name="Tensor")
        if given.tensor_id in self._modules.parameters and "_parameters" in given.source:
            return Constant(facts, "parameter", tuple(self._modules.parameters[given.tensor_id]))
        if given.tensor_id in self._modules.buffers and "_buffers" in given.source:
            return Constant(facts, "buffer", tuple(self._modules.buffers[given.tensor_id]))
        local = re.fullmatch(r"[LG]\['([^']+)'\]", given.source)
        return Constant(facts, names=(local[1],) if local is not None else ())


def _no_tensor() -> None:
    return None
