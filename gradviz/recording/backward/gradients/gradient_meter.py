"""Takes gradients while backward runs, and returns their figures when it has ended.

Problems solved here:

* Most gradients of most programs are small, and five kernels for each would cost more than the backward itself. Small
  ones are copied, and measured in batches.
* If a gradient is held, torch clones it where it would have kept it, and adds out of place where it would have added in
  place. So no gradient is held: it is copied or measured while its node passes it on.
* Reading a figure of an accelerator's tensor makes the program wait. Figures stay on the device until the end,
  and come to memory in one copy for each device. For sparse gradients torch itself waits, to count their values.
* Several threads of the engine measure at the same time: each thread, and each stream, has its own rows to copy to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import isfinite, sqrt
from threading import get_ident
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.collector import collector_paused
from gradviz.graph.gradients import TensorFigures, is_whole
from gradviz.recording.backward.gradients.histograms import NO_HISTOGRAM, Histogram, Sampler
from gradviz.recording.backward.gradients.statistics import FIGURES, figures_of, norm_of
from gradviz.recording.copied_rows import CopiedRows
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.torch_access.distributed.parameter_shards import placements_in
from gradviz.recording.torch_access.distributed.sharded_parameters import local_part
from gradviz.recording.torch_access.engine import current_stream, queue_after, queued_on
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import has_storage
from gradviz.recording.torch_access.transfers import in_memory, numbers_in

MAX_COPIED = 32_768
"""A gradient with more elements is measured without a copy."""
MAX_TOGETHER = 32_767
"""Elements of several gradients that are measured together: for more, torch wakes its other threads at every kernel,
which costs more than the kernel."""
MAX_ROWS = 64

_MEASURED_CLASSES = (torch.Tensor, torch.nn.Parameter)


@dataclass
class GradientMeter:
    """Each gradient that is taken gets a number; `facts` returns the figures by number."""

    facts_table: FactsTable
    values_up_to: int = 0
    """Gradients with at most this many elements are kept whole."""
    unmeasured: Counter[str] = field(default_factory=Counter)
    """How many gradients could not be measured, by reason."""
    fingerprints: FingerprintMeter | None = None
    """Takes the fingerprint of each, if they are wanted."""
    with_histograms: bool = True
    """Whether to take them: for small gradients they take half as long as all other figures."""
    has_parts: bool = False
    """Whether other ranks have parts of what was taken."""
    used_accelerators: bool = False
    """Whether anything that was taken was not in the processor's memory."""
    _facts: dict[int, TensorFigures] = field(default_factory=dict)
    _views: dict[int, tuple[int, tuple[int | str, ...]]] = field(default_factory=dict)
    """For gradients that have the elements of others: the number of the other, and their own shape."""
    _norms: dict[int, tuple[TensorFigures, torch.Tensor]] = field(default_factory=dict)
    _samplers: dict[Any, Sampler] = field(default_factory=dict)
    _batches: dict[Any, MeasurementBatch] = field(default_factory=dict)
    _streams: set[tuple[torch.device, Any]] = field(default_factory=set)
    """The streams of accelerators on which something was measured."""
    _placements: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Of distributed tensors, of which only the part on this rank is measured."""
    _numbers: Iterator[int] = field(default_factory=count)

    def take(self, gradient: torch.Tensor) -> int:
        """Copy or measure the gradient; returns its number. Runs without grad mode and without modes of any kind."""
        number = next(self._numbers)
        if type(gradient) not in _MEASURED_CLASSES:
            gradient = self._local_part(number, gradient)
        if type(gradient) not in _MEASURED_CLASSES or gradient.is_nested:
            self._note_unmeasured(number, gradient)
            return number
        stream = None if gradient.is_cpu else current_stream(gradient.device)
        key = gradient.shape, gradient.dtype, gradient.device, gradient.layout, stream, get_ident()
        batch = self._batches.get(key)
        if batch is None:
            batch = self._new_batch(gradient, stream)
            if batch is None:
                self._note_unmeasured(number, gradient)
                return number
            self._batches[key] = batch
            self._note_stream(gradient)
        batch.add(number, gradient)
        if self.fingerprints is not None:
            self.fingerprints.take(gradient, number)
        return number

    def take_view(self, gradient: torch.Tensor, whole: torch.Tensor, number: int) -> int:
        """The same for a gradient that may have the very elements of `whole`, which was taken with that number.

        Then it is not read again: in many networks a third of all gradients are views of others.
        """
        if self.fingerprints is not None or number in self._facts or not _has_elements_of(gradient, whole):
            return self.take(gradient)
        own = next(self._numbers)
        self._views[own] = number, self.facts_table.of_tensor(gradient).shape
        return own

    def _local_part(self, number: int, gradient: torch.Tensor) -> torch.Tensor:
        """What this rank has of a distributed tensor: more could only be known by asking the others."""
        placements = placements_in(gradient)
        if placements:
            self._placements[number] = placements
            self.has_parts = self.has_parts or not all(map(is_whole, placements))
        return local_part(gradient) if placements else gradient

    def take_norm(self, value: torch.Tensor) -> int | None:
        """Measure only the norm of a tensor that is not a gradient; None if that is impossible."""
        number = next(self._numbers)
        value = self._local_part(number, value)
        facts = _facts_without_figures(self.facts_table, value)
        if facts.unmeasured is not None or value.layout is not torch.strided:
            return None
        self._norms[number] = facts, norm_of(value)
        if self.fingerprints is not None:
            self.fingerprints.take(value, number)
        self._note_stream(value)
        return number

    def facts(self) -> dict[int, TensorFigures]:
        """The figures of everything that was taken, by number. Waits for each accelerator once."""
        return self.facts_and(())[0]

    def facts_and(self, others: Sequence[torch.Tensor]) -> tuple[dict[int, TensorFigures], list[torch.Tensor]]:
        """The figures, and other tensors that are wanted in memory and are copied with them."""
        with collector_paused():
            self._finish_on_devices()
            norms = self._norms_by_device()
            asked = [
                list(others),
                [stacked for _, stacked in norms],
                *(sampler.codes() for sampler in self._samplers.values()),
                *(batch.results() for batch in self._batches.values()),
            ]
            there = iter(in_memory([tensor for tensors in asked for tensor in tensors]))
            found = [[next(there) for _ in tensors] for tensors in asked]
            self._read_norms([numbers for numbers, _ in norms], found[1])
            histograms: dict[int, Histogram] = {}
            first_batch = 2 + len(self._samplers)
            for sampler, codes in zip(self._samplers.values(), found[2:first_batch], strict=True):
                histograms.update(sampler.histograms(codes))
            for batch, results in zip(self._batches.values(), found[first_batch:], strict=True):
                self._facts.update(batch.facts(histograms, results))
            for number, (whole, shape) in self._views.items():  # in order: one may be a view of a view
                self._facts[number] = replace(self._facts[whole], shape=shape)
            if self.fingerprints is not None:
                for number, fingerprint in self.fingerprints.results().items():
                    self._facts[number] = replace(self._facts[number], fingerprint=fingerprint)
            for number, placements in self._placements.items():
                if number in self._facts:
                    self._facts[number] = replace(self._facts[number], placements=placements)
            self._placements.clear()
        self._views.clear()
        self._batches.clear()
        self._samplers.clear()
        return self._facts, found[0]

    def _note_stream(self, measured: torch.Tensor) -> None:
        if not measured.is_cpu:
            self.used_accelerators = True
            self._streams.add((measured.device, current_stream(measured.device)))

    def _finish_on_devices(self) -> None:
        """Queue what is left to measure on the stream that holds it, and order the current stream after all of them."""
        for batch in self._batches.values():
            with queued_on(batch.stream):
                batch.flush()
        for sampler in self._samplers.values():
            with queued_on(sampler.stream):
                sampler.flush()
        queue_after(self._streams)
        self._streams.clear()

    def _norms_by_device(self) -> list[tuple[list[int], torch.Tensor]]:
        """Numbers, and their norms in the same order."""
        by_device: dict[torch.device, list[int]] = {}
        for number, (_, norm) in self._norms.items():
            by_device.setdefault(norm.device, []).append(number)
        return [
            (numbers, torch.stack([self._norms[number][1].double() for number in numbers]))
            for numbers in by_device.values()
        ]

    def _read_norms(self, numbers: Iterable[list[int]], norms: Iterable[torch.Tensor]) -> None:
        for of_device, there in zip(numbers, norms, strict=True):
            for number, norm in zip(of_device, there.tolist(), strict=True):
                self._facts[number] = replace(self._norms[number][0], norm=_if_finite(norm))
        self._norms.clear()

    def _note_unmeasured(self, number: int, gradient: torch.Tensor) -> None:
        facts = _facts_without_figures(self.facts_table, gradient)
        if facts.unmeasured is not None:
            self.unmeasured[facts.unmeasured] += 1
        self.used_accelerators = self.used_accelerators or facts.device != "cpu"
        self._facts[number] = facts

    def _new_batch(self, gradient: torch.Tensor, stream: object) -> MeasurementBatch | None:
        """The batch for gradients like this one; None if they cannot be measured."""
        facts = _facts_without_figures(self.facts_table, gradient)
        if facts.unmeasured is not None or not facts.count:
            return None
        dtype = torch.float64 if gradient.dtype in (torch.float64, torch.complex128) else torch.float32
        key = dtype, gradient.device, stream, get_ident()
        sampler = self._samplers.setdefault(
            key, Sampler(dtype, gradient.device, stream, is_idle=not self.with_histograms)
        )
        if gradient.layout is not torch.strided:
            return _SparseBatch(self, facts, sampler)
        if facts.count > MAX_COPIED:
            return _LargeBatch(self, facts, sampler)
        return _CopiedBatch(self, facts, sampler)


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
    if gradient.layout in _SPARSE_LAYOUTS:
        return None
    if gradient.layout is not torch.strided:
        return f"its layout is {str(gradient.layout).removeprefix('torch.')}"
    if not has_storage(gradient):
        return "vmap runs over it"
    if gradient.numel() and _has_no_memory(gradient):
        # Sharded training does so with parameters. Reading it would end the process.
        return "its memory has been given back"
    return None


_SPARSE_LAYOUTS = frozenset((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))


def _has_no_memory(tensor: torch.Tensor) -> bool:
    """Does not read the storage: torch would keep that Python object, and add to this gradient out of place."""
    return tensor.data_ptr() == tensor.storage_offset() * tensor.element_size()


@dataclass(frozen=True)
class _Measured:
    """Computed figures, which stay on their device until the end.

    Thousands of small Python objects, made while the program runs, would trigger the garbage collector again and again.
    """

    numbers: list[int]
    figures: torch.Tensor
    times: int
    """Each measured element stands for this many."""
    values: torch.Tensor | None


class MeasurementBatch:
    """Collects gradients with the same shape, dtype and device."""

    def __init__(self, meter: GradientMeter, facts: TensorFigures, sampler: Sampler) -> None:
        self._common = facts
        self._sampler = sampler
        self.stream = sampler.stream
        self._keeps_values = facts.count <= meter.values_up_to and not facts.dtype.startswith("complex")
        self._measured: list[_Measured] = []

    def add(self, number: int, gradient: torch.Tensor) -> None:
        """Take one gradient."""
        raise NotImplementedError

    def flush(self) -> None:
        """Measure what was taken but not measured yet."""

    def measure(self, numbers: list[int], matrix: torch.Tensor, times: int = 1) -> None:
        """Measure the rows, which belong to these numbers; each element stands for `times` elements."""
        self._sampler.add(numbers, matrix)
        values = matrix.clone() if self._keeps_values else None
        self._measured.append(_Measured(numbers, figures_of(matrix, self._sampler.scratch), times, values))

    def results(self) -> list[torch.Tensor]:
        """What was computed, on its device: `facts` takes it from memory. First all figures, then all values."""
        if not self._measured:
            return []
        figures = torch.cat([measured.figures for measured in self._measured])
        return [figures, *(measured.values for measured in self._measured if measured.values is not None)]

    def facts(
        self, histograms: Mapping[int, Histogram], in_memory: Sequence[torch.Tensor]
    ) -> Iterator[tuple[int, TensorFigures]]:
        """The figures of everything that was measured, with its number."""
        if not in_memory:
            return
        numbers = iter(numbers_in(in_memory[0]))
        rows, all_values = zip(*[numbers] * FIGURES, strict=True), iter(in_memory[1:])
        for measured in self._measured:
            kept = None if measured.values is None else next(all_values)
            values = kept.tolist() if kept is not None else [None] * len(measured.numbers)
            for number, own_values in zip(measured.numbers, values, strict=True):
                figures = self._figures(next(rows), measured.times, histograms.get(number, NO_HISTOGRAM))
                yield number, figures if own_values is None else replace(figures, values=tuple(own_values))

    def _figures(self, row: Sequence[float], times: int, histogram: Histogram) -> TensorFigures:
        norm, total, minimum, maximum, nonzero, nans, infs = row
        common, (first_decade, decades) = self._common, histogram
        finite = common.count - times * int(nans + infs)
        return TensorFigures(
            common.shape,
            common.dtype,
            common.device,
            common.layout,
            False,
            _if_finite(norm * sqrt(times)) if finite else None,
            _if_finite(total * times / finite) if finite else None,
            minimum if finite else None,
            maximum if finite else None,
            common.count,
            common.count - times * int(nonzero),
            times * int(nans),
            times * int(infs),
            decades,
            first_decade,
        )


def _if_finite(figure: float) -> float | None:
    """None where the figure of finite elements is itself too large for float64."""
    return figure if isfinite(figure) else None


class _CopiedBatch(MeasurementBatch):
    """Small gradients, copied to rows that are measured when all are in use."""

    def __init__(self, meter: GradientMeter, facts: TensorFigures, sampler: Sampler) -> None:
        super().__init__(meter, facts, sampler)
        max_rows = min(MAX_ROWS, MAX_TOGETHER // facts.count)
        device = torch.device(facts.device)
        self._rows = CopiedRows(tuple(map(int, facts.shape)), sampler.dtype, device, max_rows)

    def add(self, number: int, gradient: torch.Tensor) -> None:
        self._rows.add(number, _magnitudes(gradient), self.measure)

    def flush(self) -> None:
        self._rows.flush(self.measure)


class _LargeBatch(MeasurementBatch):
    """Large gradients: a copy of each would need memory that the program may not have."""

    def add(self, number: int, gradient: torch.Tensor) -> None:
        once = _without_repetition(gradient)
        self.measure([number], _magnitudes(once).view(1, -1), gradient.numel() // once.numel())


def _without_repetition(gradient: torch.Tensor) -> torch.Tensor:
    """The elements in memory, each once, as one row: what `sum` sends back is one number, repeated at every position.

    Figures do not depend on the order of elements, so a tensor that is only transposed need not be copied.
    """
    expected = 1
    for stride, size in _dimensions(gradient):
        if not stride:
            continue
        if stride != expected:
            return gradient.reshape(-1)
        expected *= size
    return gradient.as_strided((expected,), (1,))


def _has_elements_of(gradient: torch.Tensor, whole: torch.Tensor) -> bool:
    """Whether one is the other in another shape.

    Small ones must have the same order, too, in which they are summed and sampled; large ones are read in the order of
    the memory.
    """
    if not (type(gradient) is type(whole) is torch.Tensor and gradient.layout is whole.layout is torch.strided):
        return False
    if not gradient.numel() == whole.numel() > 1:
        return False
    is_in_order = gradient.is_contiguous() and whole.is_contiguous()
    if not is_in_order and (gradient.numel() <= MAX_COPIED or _dimensions(gradient) != _dimensions(whole)):
        return False
    # Their storages are not compared: once Python has seen it, torch adds to a gradient out of place.
    return gradient.as_strided(whole.shape, whole.stride()).is_set_to(whole)


def _dimensions(gradient: torch.Tensor) -> list[tuple[int, int]]:
    """Stride and size of each dimension with more than one element, in the order of the memory."""
    return sorted((stride, size) for stride, size in zip(gradient.stride(), gradient.shape, strict=True) if size > 1)


class _SparseBatch(MeasurementBatch):
    """Gradients of embeddings and of sparse matrices: some values, all others are zero."""

    def add(self, number: int, gradient: torch.Tensor) -> None:
        if self._keeps_values:
            self.measure([number], gradient.to_dense().view(1, -1))
            return
        values = gradient.coalesce()._values() if gradient.is_sparse else gradient.values()
        given = _magnitudes(values).reshape(-1)
        if given.numel() < gradient.numel():
            given = torch.cat((given, given.new_zeros(1)))  # for all elements that are not stored
        self.measure([number], given.unsqueeze(0))


def _magnitudes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.abs() if tensor.is_complex() else tensor
