"""Leaves whose gradients the program hands on to other leaves, as a worker does whose copy of a model needs no step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from gradviz.analysis.dataflow import hands_on
from gradviz.graph.call_log import Call, CallLog

GIVES_A_GRADIENT = "torch.Tensor.grad.__set__"


class HandedOnGradients:
    """Answers for all leaves of one log, which is looked through once."""

    def __init__(self, log: CallLog) -> None:
        self._log = log

    def is_of(self, leaf: int) -> bool:
        """Whether its gradient, or what was computed from that, went into another leaf or its ``.grad``."""
        return any(fed != leaf for gradient in self._gradients.get(leaf, ()) for fed in self._fed.get(gradient, ()))

    @cached_property
    def _gradients(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for number, tensor in enumerate(self._log.tensors):
            if tensor.gradient_of is not None:
                found[tensor.gradient_of].append(number)
        return dict(found)

    @cached_property
    def _fed(self) -> dict[int, tuple[int, ...]]:
        """By tensor: leaves that its values went into; of many two, of which one is another than any given one."""
        fed: dict[int, tuple[int, ...]] = {}
        for call in reversed(self._log.calls):
            leaves = set(self._given_to(call))
            for use in call.outputs if hands_on(call) else ():
                leaves.update(fed.get(use.tensor, ()))
            for use in call.inputs if leaves else ():
                fed[use.tensor] = tuple(sorted(leaves.union(fed.get(use.tensor, ())))[:2])
        return fed

    def _given_to(self, call: Call) -> Iterator[int]:
        for use in call.inputs[:1] if call.function == GIVES_A_GRADIENT else call.changed:
            leaf = use.tensor if use.is_live_leaf else self._log.tensors[use.tensor].gradient_of
            if leaf is not None:
                yield leaf
