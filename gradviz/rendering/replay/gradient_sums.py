"""The gradients that arrive at a step along each branch, their sum, and what hooks make of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import isclose

from gradviz.analysis.replay.steps import Flow, Slot, Step
from gradviz.graph.query.operation_names import autograd_name
from gradviz.rendering.replay.gradient_numbers import tensor_words
from gradviz.rendering.replay.step_names import StepNames
from gradviz.rendering.words.common_words import counted, listed, shape_words

MAX_BRANCHES = 5
MAX_SLOTS = 4
_OUTSIDE = "from nodes that are not shown"


class SumWords:
    """Finds the words for gradients that enter steps."""

    def __init__(self, names: StepNames) -> None:
        self._names, self._replay, self._graph = names, names.replay, names.graph
        self._is_part = bool(names.subject.selection_notes)
        """Whether gradients may come from nodes that are not shown."""

    def amount(self, flow: Flow) -> str:
        """A gradient in words; if it was not measured, the shape of its tensor, which is the same."""
        tensor = self._graph.nodes[flow.receiver].output(flow.input_nr)
        return tensor_words(flow.gradient) or shape_words(tensor) or "?"

    def beginning(self) -> Iterator[str]:
        """The gradients that backward starts from."""
        roots = list(islice(self._replay.roots_entering(), MAX_SLOTS))
        yield from (f"{self.amount(flow)}  {self._names.sender(flow)}" for flow in roots)
        if len(self._graph.roots) > len(roots):
            yield f"and {len(self._graph.roots) - len(roots):,} more"
        if not roots:
            yield _OUTSIDE

    def entering(self, step: Step, letter: str) -> Iterator[str]:
        """Every branch with its source, and their sum, named by the `letter` of the formulas."""
        if not step.entering:
            words = listed([tensor_words(each) for each in self._names.main_node(step).arrived if each is not None])
            yield f"{words}{'  ' if words else ''}{_OUTSIDE}"
            return
        is_alone = len(step.slots) == 1
        for slot, flows in islice(step.slots.items(), MAX_SLOTS):
            if not is_alone:
                yield self._slot_name(step, slot)
            yield from (line if is_alone else f"  {line}" for line in self._at_slot(slot, flows, letter))
        if len(step.slots) > MAX_SLOTS:
            yield f"and {len(step.slots) - MAX_SLOTS:,} more"

    def in_short(self, step: Step, letter: str) -> Iterator[str]:
        """The same for below a picture: ``ȳ = 0.1``, ``12 + 0.6 = 12.6 for width``; empty if a wire shows it."""
        called = f"{letter} = " if letter else ""
        for slot, flows in islice(step.slots.items(), MAX_SLOTS):
            total = tensor_words(self._replay.arrived_at(slot))
            name = f" {self._slot_name(step, slot)}" if len(step.slots) > 1 else ""
            parts = [self.amount(flow) for flow in flows[:MAX_BRANCHES]]
            if len(flows) > MAX_BRANCHES:
                parts.append(f"{len(flows) - MAX_BRANCHES:,} more")
            if self._lacks_branches(slot, flows):
                parts.append("…")
            if len(parts) > 1 and total:
                yield f"{called}{' + '.join(parts)} = {total}{name}"
            elif letter and total:
                yield f"{called}{total}"

    def _slot_name(self, step: Step, slot: Slot) -> str:
        """Which of several tensors a gradient is for: its variable, or its number."""
        node, output_nr = self._graph.nodes[slot[0]], slot[1]
        names = node.names_at(output_nr)
        if names or self._names.item_of(step).kind != "box":
            return f"for {names[0] if names else f'output {output_nr}'}"
        return f"at {autograd_name(node)}"

    def _at_slot(self, slot: Slot, flows: Sequence[Flow], letter: str) -> Iterator[str]:
        """The gradient of each branch, their sum, and what hooks made of it."""
        total, arrived = self._replay.sum_at(slot), self._replay.arrived_at(slot)
        called = f"{letter} = " if letter else ""
        is_hooked = total != arrived
        if len(flows) == 1 and not self._lacks_branches(slot, flows):
            yield f"{'' if is_hooked else called}{self.amount(flows[0])}  {self._names.sender(flows[0])}"
        else:
            yield from self._branches(slot, flows)
            if total is not None:
                yield f"{'= ' if is_hooked else called or '= '}{tensor_words(total)}"
        if is_hooked:
            hooks = counted(len(self._graph.nodes[slot[0]].hooks), "hook")
            yield f"{called}{tensor_words(arrived)}  after {hooks}"

    def _branches(self, slot: Slot, flows: Sequence[Flow]) -> Iterator[str]:
        """The terms of the sum, one on each line."""
        amounts = [self.amount(flow) for flow in flows[:MAX_BRANCHES]]
        widest = max(map(len, amounts))
        for index, (amount, flow) in enumerate(zip(amounts, flows, strict=False)):
            yield f"{'+' if index else ' '} {amount:<{widest}}  {self._names.sender(flow)}"
        if len(flows) > MAX_BRANCHES:
            yield f"+ {len(flows) - MAX_BRANCHES:,} more"
        if self._lacks_branches(slot, flows):
            yield f"+ {'…':<{widest}}  {_OUTSIDE}"

    def _lacks_branches(self, slot: Slot, flows: Sequence[Flow]) -> bool:
        """For a part of a graph: whether the known gradients do not add up to the sum."""
        total = self._replay.sum_at(slot)
        parts = [flow.gradient for flow in flows if flow.gradient is not None]
        if not self._is_part or total is None or len(parts) < len(flows):
            return False
        values = [part.values for part in parts if part.values is not None]
        if total.values is not None and len(values) == len(parts):
            sums = map(sum, zip(*values, strict=True))
            return not all(map(_is_about, sums, total.values))
        return len(parts) == 1 and not _is_about(parts[0].norm or 0.0, total.norm or 0.0)


def _is_about(one: float, other: float) -> bool:
    """Whether two numbers differ only by rounding; NaN never differs."""
    return isclose(one, other, rel_tol=1e-3, abs_tol=1e-9) or one != one or other != other
