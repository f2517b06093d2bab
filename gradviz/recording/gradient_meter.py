"""Takes gradients while backward runs, and gives their figures when it is over.

Problems solved here:

* Most gradients of most programs are small, and five kernels for each would cost more than the backward itself. Small
  ones are copied, and measured by the dozen.
* A gradient that somebody else holds is cloned by torch where it would have been kept, and added out of place where it
  would have been added in place. So no gradient is held: it is copied or measured while its node hands it on.
* Reading a figure of an accelerator's tensor makes the program wait. Figures stay there until all is over.
* Several threads of the engine measure at the same time: each has its own rows to copy to, and so has each stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from math import sqrt
from threading import get_ident
from typing import Any

import torch

from gradviz.graph.gradients import FIRST_DECADE, TensorFigures
from gradviz.recording import torch_compat
from gradviz.recording.gradient_statistics import careful_figures, decades, figures_on_cpu, histograms
from gradviz.recording.tensor_facts import FactsTable

MOST_COPIED = 65_536
"""Elements that are copied together; a gradient with more of them is measured where it is."""
MOST_ROWS = 64

_MEASURED_CLASSES = (torch.Tensor, torch.nn.Parameter)


@dataclass
class GradientMeter:
    """Each gradient that is taken gets a number; `facts` gives the figures by number."""

    facts_table: FactsTable
    values_up_to: int = 0
    """Gradients with so many elements or fewer are kept whole."""
    unmeasured: Counter[str] = field(default_factory=Counter)
    """How many gradients could not be measured, by reason."""
    _facts: dict[int, TensorFigures] = field(default_factory=dict)
    _shelves: dict[Any, _Shelf] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def take(self, gradient: torch.Tensor) -> int:
        """Copy or measure the gradient; its number. Runs without grad mode and without modes of any kind."""
        number = next(self._numbers)
        if type(gradient) not in _MEASURED_CLASSES or gradient.is_nested:
            self._note_unmeasured(number, gradient)
            return number
        stream = None if gradient.is_cpu else torch_compat.current_stream(gradient.device)
        key = gradient.shape, gradient.dtype, gradient.device, gradient.layout, stream, get_ident()
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = self._new_shelf(gradient)
            if shelf is None:
                self._note_unmeasured(number, gradient)
                return number
            self._shelves[key] = shelf
        shelf.add(number, gradient)
        return number

    def take_value(self, value: torch.Tensor) -> int | None:
        """The same for a value of the forward, which is no gradient to be disclosed where it cannot be measured."""
        return None if _why_not_measured(value) else self.take(value)

    def facts(self) -> dict[int, TensorFigures]:
        """The figures of everything that was taken, by number. Waits for accelerators."""
        for shelf in self._shelves.values():
            shelf.finish()
        self._shelves.clear()
        return self._facts

    def note(self, number: int, facts: TensorFigures) -> None:
        """The figures of a number are known."""
        self._facts[number] = facts

    def _note_unmeasured(self, number: int, gradient: torch.Tensor) -> None:
        facts = _facts_without_figures(self.facts_table, gradient)
        if facts.unmeasured is not None:
            self.unmeasured[facts.unmeasured] += 1
        self.note(number, facts)

    def _new_shelf(self, gradient: torch.Tensor) -> _Shelf | None:
        """Where gradients like this one are measured; None for those of which nothing is to be measured."""
        facts = _facts_without_figures(self.facts_table, gradient)
        if facts.unmeasured is not None or not facts.count:
            return None
        if gradient.is_sparse:
            return _Sparse(self, facts)
        if facts.count > MOST_COPIED:
            return _MeasuredInPlace(self, facts)
        return _Copies(self, facts, facts.count <= self.values_up_to and not gradient.is_complex())


def _facts_without_figures(table: FactsTable, gradient: torch.Tensor) -> TensorFigures:
    tensor = table.of_tensor(gradient)
    reason = _why_not_measured(gradient)
    size = 0 if reason else gradient.numel()
    return TensorFigures(tensor.shape, tensor.dtype, tensor.device, tensor.layout, count=size, unmeasured=reason)


def _why_not_measured(gradient: torch.Tensor) -> str | None:
    if type(gradient) not in _MEASURED_CLASSES:
        return f"{type(gradient).__name__} is a tensor subclass"
    if gradient.is_nested:
        return "it is a nested tensor"
    if gradient.is_meta:
        return "a meta tensor has no values"
    if gradient.is_quantized:
        return "it is quantized"
    if gradient.layout not in (torch.strided, torch.sparse_coo):
        return f"its layout is {str(gradient.layout).removeprefix('torch.')}"
    return None


@dataclass(frozen=True)
class _Unread:
    """Figures that are still on their device."""

    numbers: list[int]
    times: int
    figures: torch.Tensor
    codes: torch.Tensor
    values: torch.Tensor | None


class _Shelf:
    """Where gradients go that have shape, dtype and device in common."""

    def __init__(self, meter: GradientMeter, facts: TensorFigures, keeps_values: bool = False) -> None:
        self._meter = meter
        self._common = facts
        self._keeps_values = keeps_values
        self._unread: list[_Unread] = []

    def add(self, number: int, gradient: torch.Tensor) -> None:
        """Take one gradient."""
        raise NotImplementedError

    def measure(self, numbers: list[int], matrix: torch.Tensor, times: int = 1) -> None:
        """Measure the rows, which belong to these numbers; their elements stand for `times` as many."""
        values = matrix if self._keeps_values else None
        if matrix.is_cpu:
            kept = values.tolist() if values is not None else None
            self._note_all(numbers, times, figures_on_cpu(matrix), histograms(decades(matrix)), kept)
        else:
            kept_there = values.clone() if values is not None else None
            self._unread.append(_Unread(numbers, times, careful_figures(matrix), decades(matrix), kept_there))

    def finish(self) -> None:
        if not self._unread:
            return
        unread, self._unread = self._unread, []
        torch_compat.wait_for(unread[0].figures.device)
        figures = iter(torch.cat([each.figures for each in unread]).tolist())
        counts = iter(histograms(torch.cat([each.codes for each in unread]).cpu()))
        for each in unread:
            values = each.values.tolist() if each.values is not None else None
            rows = len(each.numbers)
            self._note_all(each.numbers, each.times, list(islice(figures, rows)), list(islice(counts, rows)), values)

    def _note_all(
        self,
        numbers: list[int],
        times: int,
        figures: list[list[float]],
        counts: list[list[int]],
        values: list[list[float]] | None,
    ) -> None:
        for row, number in enumerate(numbers):
            kept = tuple(values[row]) if values is not None else None
            self._meter.note(number, self._with_figures(figures[row], times, counts[row], kept))

    def _with_figures(
        self, figures: list[float], times: int, counts: list[int], values: tuple[float, ...] | None
    ) -> TensorFigures:
        norm, total, minimum, maximum, nonzero, nans, infs = figures
        common, finite = self._common, self._common.count - times * int(nans + infs)
        first, histogram = _trimmed(counts)
        return TensorFigures(
            common.shape,
            common.dtype,
            common.device,
            common.layout,
            False,
            norm * sqrt(times) if finite else None,
            total * times / finite if finite else None,
            minimum if finite else None,
            maximum if finite else None,
            common.count,
            common.count - times * int(nonzero),
            times * int(nans),
            times * int(infs),
            histogram,
            first,
            values,
        )


def _trimmed(counts: list[int]) -> tuple[int, tuple[int, ...]]:
    """The first decade that has a value, and the counts from there to the last one that has."""
    filled = [place for place, number in enumerate(counts) if number]
    if not filled:
        return 0, ()
    return FIRST_DECADE + filled[0], tuple(counts[filled[0] : filled[-1] + 1])


class _Copies(_Shelf):
    """Small gradients, copied to rows that are measured when all are in use.

    The first few rows are few: most shapes of a program come only once or twice.
    """

    def __init__(self, meter: GradientMeter, facts: TensorFigures, keeps_values: bool) -> None:
        super().__init__(meter, facts, keeps_values)
        self._most = max(1, min(MOST_ROWS, MOST_COPIED // facts.count))
        self._numbers: list[int] = []
        self._matrix: torch.Tensor | None = None
        self._rows: tuple[torch.Tensor, ...] = ()

    def add(self, number: int, gradient: torch.Tensor) -> None:
        if len(self._numbers) == len(self._rows):
            self._flush()
            self._make_room(gradient)
        self._rows[len(self._numbers)].copy_(_magnitudes(gradient))
        self._numbers.append(number)

    def finish(self) -> None:
        self._flush()
        super().finish()

    def _flush(self) -> None:
        if self._numbers:
            assert self._matrix is not None
            self.measure(self._numbers, self._matrix[: len(self._numbers)])
            self._numbers = []

    def _make_room(self, gradient: torch.Tensor) -> None:
        wanted = min(self._most, 4 * len(self._rows) or 2)
        if wanted > len(self._rows):
            dtype = torch.float64 if gradient.dtype in (torch.float64, torch.complex128) else torch.float32
            self._matrix = torch.empty((wanted, gradient.numel()), dtype=dtype, device=gradient.device)
            self._rows = self._matrix.view(wanted, *gradient.shape).unbind(0)


class _MeasuredInPlace(_Shelf):
    """Large gradients: a copy of each would cost memory that the program may not have."""

    def add(self, number: int, gradient: torch.Tensor) -> None:
        once = _without_repetition(gradient)
        self.measure([number], _magnitudes(once).view(1, -1), gradient.numel() // once.numel())


def _without_repetition(gradient: torch.Tensor) -> torch.Tensor:
    """The elements in memory, each once, in a row: what `sum` sends back is one number, shown in every place.

    Figures do not depend on the order of elements, so what is only transposed need not be copied.
    """
    dimensions = [
        (stride, size) for stride, size in zip(gradient.stride(), gradient.shape, strict=True) if size > 1 and stride
    ]
    expected = 1
    for stride, size in sorted(dimensions):
        if stride != expected:
            return gradient.reshape(-1)
        expected *= size
    return gradient.as_strided((expected,), (1,))


class _Sparse(_Shelf):
    """Gradients of embeddings: values for a few rows, all others are zero."""

    def add(self, number: int, gradient: torch.Tensor) -> None:
        given = _magnitudes(gradient.coalesce()._values()).reshape(-1)
        if given.numel() < gradient.numel():
            given = torch.cat((given, given.new_zeros(1)))  # for all that are not given
        self.measure([number], given.unsqueeze(0))


def _magnitudes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.abs() if tensor.is_complex() else tensor
