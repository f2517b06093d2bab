"""Keeps small values of the forward whole, as they were when they were made, for people who learn autograd.

Problems solved here:

* Reading the ``grad_fn`` of a result would attach a Python wrapper to its node for good: see `destruction`. The
  sequence numbers that a call used show which node made its result.
* A later operation may change a value in place, and most values are gone before backward: small ones are copied.
* A loop that never calls backward makes values without end: at most `MAX_KEPT` are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

import torch
from msgspec.structs import replace

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Constant, Node
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_sums import Slot
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.torch_access.modes import is_transforming
from gradviz.recording.torch_access.name_lookup import tensor_attribute
from gradviz.recording.torch_access.tensor_facts import FactsTable

MAX_KEPT = 100_000

_requires_grad = tensor_attribute("requires_grad")
_output_nr = tensor_attribute("output_nr")


class ForwardValues:
    """Values of results and of inputs without gradient, with at most `up_to` elements; none if that is 0."""

    def __init__(self, facts: FactsTable, up_to: int) -> None:
        self.up_to = up_to
        self.is_taking = False
        self.unknown: Counter[str] = Counter()
        """How many values are unknown, by reason."""
        self._meter = GradientMeter(facts, up_to)
        self._results: dict[tuple[int, int], int] = {}
        """By sequence number and output; values are numbers in the meter."""
        self._constants: dict[int, int] = {}
        self._count = 0

    def begin(self) -> None:
        """Take values from now on."""
        self.is_taking = self.up_to > 0

    def note_results(self, before: int, after: int, results: Sequence[torch.Tensor]) -> None:
        """A torch call made the nodes ``before`` to ``after - 1`` and returned `results`."""
        # If a call makes several nodes and has one result, the last node made it.
        if after - before == 1 or len(results) == 1:
            for result in results:
                number = self.take(result) if _requires_grad(result) else None
                if number is not None:
                    self._results[after - 1, _output_nr(result)] = number

    def note_constant(self, index: int, tensor: torch.Tensor) -> None:
        """A torch call received this tensor, which has this index in the log."""
        number = self.take(tensor)
        if number is not None:
            self._constants[index] = number

    def take(self, tensor: torch.Tensor) -> int | None:
        """The number of its values in `_figures`; None if they are not wanted."""
        if not self.is_taking or self._count >= MAX_KEPT:
            return None
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or is_transforming():
            return None
        with measuring():
            number = self._meter.take(tensor) if tensor.numel() <= self.up_to else None
        self._count += number is not None
        return number

    # -- into a graph ----------------------------------------------------------------------------------------------

    def added_to_constants(self, constants: Iterable[Constant], indices: Iterable[int]) -> tuple[Constant, ...]:
        """The constants with their values; `indices` are those in the log. Waits for accelerators."""
        figures = self._figures()
        return tuple(
            replace(constant, value=figures.get(self._constants.get(index, -1)))
            for constant, index in zip(constants, indices, strict=True)
        )

    def added_to_nodes(
        self,
        nodes: list[Node],
        held: Iterable[tuple[int, int, torch.Tensor]],
        saved: Mapping[tuple[int, str], int],
    ) -> None:
        """Give each node the values of its outputs, and of its saved tensors. Waits for accelerators.

        Args:
            held: tensors that still exist, leaves included, with the index of their node and of its output.
            saved: numbers that `take` gave to saved tensors, by index of the node and slot.
        """
        late = {
            (index, output_nr): number
            for index, output_nr, tensor in held
            if (nodes[index].sequence_nr, output_nr) not in self._results and (number := self.take(tensor)) is not None
        }
        figures = self._figures()
        taken: list[list[TensorFigures | None]] = []
        for index, node in enumerate(nodes):
            values = []
            for output_nr, facts in enumerate(node.outputs):
                made = None if node.sequence_nr is None else self._results.get((node.sequence_nr, output_nr))
                number = late.get((index, output_nr), -1) if made is None else made
                found = figures.get(number)
                is_of_this = facts is not None and found is not None and found.shape == facts.shape
                values.append(found if is_of_this and found is not None and found.is_measured else None)
            taken.append(values)
        _carry_through_reshapes(nodes, taken)
        for index, values in enumerate(taken):
            self._count_unknown(nodes[index], values)
            if any(values):
                nodes[index] = replace(nodes[index], values=tuple(values))
        for index in dict.fromkeys(index for index, _ in saved):
            saved_with_values = (
                _with_value(each, figures.get(saved.get((index, each.slot), -1))) for each in nodes[index].saved
            )
            nodes[index] = replace(nodes[index], saved=tuple(saved_with_values))

    def _figures(self) -> dict[int, TensorFigures]:
        with measuring():
            return self._meter.facts()

    def _count_unknown(self, node: Node, values: Sequence[TensorFigures | None]) -> None:
        for facts, value in zip(node.outputs, values, strict=True):
            sizes = [size for size in facts.shape if isinstance(size, int)] if facts is not None else []
            if value is None and facts is not None and len(sizes) == len(facts.shape):
                self.unknown["large" if prod(sizes) > self.up_to else "unseen"] += 1

    def disclosures(self) -> Iterator[str]:
        """Which of the wanted values are missing."""
        if large := self.unknown["large"]:
            kept = "value of 1 output is not kept: it has"
            if large > 1:
                kept = f"values of {large:,} outputs are not kept: they have"
            yield f"the {kept} more than {self.up_to:,} elements (--values-up-to N keeps larger ones)"
        if self._count >= MAX_KEPT:
            yield f"only the first {MAX_KEPT:,} values of the forward were kept"
        elif unseen := self.unknown["unseen"]:
            unknown = "value of 1 small output is unknown: it"
            if unseen > 1:
                unknown = f"values of {unseen:,} small outputs are unknown: they"
            yield f"the {unknown} never left the torch call or the code that made {'it' if unseen == 1 else 'them'}"


def _with_value(saved: SavedTensor, figures: TensorFigures | None) -> SavedTensor:
    return saved if figures is None or not figures.is_measured else replace(saved, value=figures)


_SAME_NUMBERS = frozenset({"ViewBackward0", "UnsafeViewBackward0", "SqueezeBackward1", "UnsqueezeBackward0"})
"""Views that have the numbers of their input in the same order."""


def _carry_through_reshapes(nodes: Sequence[Node], values: list[list[TensorFigures | None]]) -> None:
    """Copy values through views: a call that makes several nodes, such as a linear layer, shows only the last."""
    views = [
        (node.id, edge.target, edge.input_nr)
        for node in nodes
        if node.name in _SAME_NUMBERS
        for edge in node.edges
        if edge is not None
    ]
    for view, base, output_nr in views:
        _copy(nodes, values, source=(base, output_nr), target=(view, 0))
    for view, base, output_nr in reversed(views):
        _copy(nodes, values, source=(view, 0), target=(base, output_nr))


def _copy(nodes: Sequence[Node], values: list[list[TensorFigures | None]], *, source: Slot, target: Slot) -> None:
    known, facts = values[source[0]], nodes[target[0]].output(target[1])
    figures = known[source[1]] if source[1] < len(known) else None
    if figures is not None and facts is not None and values[target[0]][target[1]] is None:
        values[target[0]][target[1]] = replace(figures, shape=facts.shape)
