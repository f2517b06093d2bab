"""Tensors that want a gradient and get none, and the cut that is to blame for each.

A cut (`gradviz.analysis.cuts`) is to blame if it lies below a tensor that wants a gradient *and* above the root of a
backward call. What is cut on its way to a metric, a log or a target lies above no root, and what nobody trains wants
nothing.
"""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from gradviz.analysis.cuts import Cut
from gradviz.analysis.dataflow import Dataflow
from gradviz.capture.capture import Capture
from gradviz.graph.call_log import Call


class CutOff(Struct, frozen=True):
    """One cut, and everything that gets no gradient because of it."""

    cut: Cut
    backward: int
    """The call in the log that asked for the gradients."""
    root: int
    """The tensor that it started from, as a number of the log."""
    tensors: tuple[int, ...]
    """What wants a gradient and gets none; nothing where that cannot be told."""


class MissingGradients:
    """What the calls of one run tell of gradients that never came."""

    def __init__(self, capture: Capture, dataflow: Dataflow) -> None:
        self._capture = capture
        self._flow = dataflow
        self._log = dataflow.log

    @cached_property
    def wanting(self) -> tuple[int, ...]:
        """Leaves that somebody wants to train, were used, and got no gradient in the whole run.

        Where there are optimizers, those that one of them has; else every parameter.
        """
        trained = {tensor for optimizer in self._log.optimizers for group in optimizer.groups for tensor in group}
        candidates = sorted(trained) if trained else self._log.parameters
        return tuple(
            number
            for number in candidates
            if self._log.tensors[number].requires_grad and not self._got_one(number) and self._flow.users(number)
        )

    @cached_property
    def cut_off(self) -> tuple[CutOff, ...]:
        """Every cut that is to blame, the one that costs most tensors their gradient first."""
        blamed: dict[tuple[int, str], CutOff] = {}
        for backward, root in self._flow.roots():
            for cut in self._flow.cuts_reaching(root, before=backward, since=self._flow.step_before(backward)):
                tensors = tuple(number for number in self._flow.leaves_above(cut) if number in self._wanting_set)
                is_refused = self._log.calls[backward].raised is not None and not self._is_live(backward, root)
                if tensors or is_refused:
                    blamed.setdefault((cut.call_site or 0, cut.kind), CutOff(cut, backward, root, tensors))
        return tuple(sorted(blamed.values(), key=lambda each: (-len(each.tensors), each.cut.call)))

    @cached_property
    def _wanting_set(self) -> frozenset[int]:
        return frozenset(self.wanting)

    def _is_live(self, backward: int, root: int) -> bool:
        return any(use.tensor == root and use.requires_grad for use in self._log.calls[backward].inputs)

    def _got_one(self, number: int) -> bool:
        tensor = self._log.tensors[number]
        if tensor.end is not None and tensor.end.has_grad:
            return True
        return number in self._with_gradients or any(name in self._reached_names for name in tensor.names)

    @cached_property
    def _with_gradients(self) -> frozenset[int]:
        """Leaves whose ``.grad`` was seen by some call."""
        return frozenset(tensor.gradient_of for tensor in self._log.tensors if tensor.gradient_of is not None)

    @cached_property
    def _reached_names(self) -> frozenset[str]:
        """Names of leaves that a recorded graph brought a gradient to."""
        return frozenset(
            name
            for graph in self._capture.graphs
            for leaf in graph.leaves
            if any(arrived is not None and not arrived.is_undefined for arrived in leaf.arrived)
            for name in leaf.names
        )

    def calls_of(self, cut_off: CutOff) -> tuple[Call, Call]:
        """The call that cuts, and the backward call."""
        return self._log.calls[cut_off.cut.call], self._log.calls[cut_off.backward]
