"""Reads from a node what its forward produced: shape, dtype and device."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.model import TensorFacts
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, input_metadata
from gradviz.recording.torch_access.tensor_facts import UNREADABLE, FactsTable, is_unreadable
from gradviz.recording.walk.graph_walker import Walk


class OutputReader:
    """Reads outputs of nodes; `unreadable` counts the nodes whose outputs cannot be read."""

    def __init__(self, facts: FactsTable, unreadable: Counter[str]) -> None:
        self.facts = facts
        self.unreadable = unreadable

    def of_walk(self, walk: Walk) -> list[tuple[TensorFacts | None, ...]]:
        """Facts of what the forward of each node produced; empty for leaves, see `of_leaf`."""
        read, single = input_metadata, self.facts.single
        result: list[tuple[TensorFacts | None, ...]] = []
        for wrapper, number in zip(walk.wrappers, walk.sequence_nrs, strict=True):
            try:
                metadata = read(wrapper) if number != LEAF_SEQUENCE_NR else ()
                if len(metadata) == 1:
                    # Written out for the usual case: one function call per node would double the time of the whole
                    # column.
                    (entry,) = metadata
                    key = (tuple(entry.shape), entry.dtype, entry.device)
                    result.append(single.get(key) or self.facts.new_single(key))
                else:
                    result.append(tuple([self._output(entry) for entry in metadata]))
            except (RuntimeError, AttributeError, TypeError):
                result.append(self._outputs_one_by_one(wrapper))
        return result

    def of_leaf(self, wrapper: Any, tensor: torch.Tensor) -> TensorFacts | None:
        """Facts of a leaf: of its tensor, or from its node if a subclass hides them."""
        facts = self.facts.of_tensor(tensor)
        if is_unreadable(facts):
            known = self._outputs_one_by_one(wrapper)
            return replace(known[0], type_name=facts.type_name) if known and known[0] is not None else facts
        return facts

    def _outputs_one_by_one(self, wrapper: Any) -> tuple[TensorFacts | None, ...]:
        try:
            metadata = input_metadata(wrapper)
        except RuntimeError:
            self.unreadable["shapes"] += 1
            return ()
        return tuple(self._output(entry) for entry in metadata)

    def _output(self, entry: Any) -> TensorFacts | None:
        try:
            return self.facts.of_metadata(entry)
        except (RuntimeError, AttributeError, TypeError):
            # An output that was never used has no metadata; a nested tensor of the old kind has no shape.
            if getattr(entry, "is_cpp_nested_tensor", False):
                self.unreadable["shapes"] += 1
                return UNREADABLE
            return None
