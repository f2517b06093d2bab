"""Spreads subjects over processes, and survives it when one of these dies.

A diary says which sample each process is at, and how it runs that. So the one that a process died of is known: where
torch died of it alone, it is no test of gradviz; all others are examined again without it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import TypeVar

import torch

from tests.conformance.examination import examine
from tests.conformance.order import Order
from tests.conformance.runs import quiet
from tests.conformance.sample import Sample
from tests.conformance.tally import Tally

Samples = Callable[[str, int, Tally], Iterator[Sample]]
"""Given the name of a subject and its place, which lets different subjects begin with different samples: its samples.
What cannot be a sample is counted in the tally."""

_AT_ONCE = 8
"""Subjects that a process takes before it asks for more."""
_PLAIN, _RECORDED = "plain", "recorded"


@dataclass(frozen=True)
class _Chunk:
    """Subjects that one process examines, with their places."""

    subjects: list[tuple[int, str]]
    diary: Path
    """Number of the subject, number of the sample, and how that runs, while it does; not there before the first."""
    without: set[tuple[int, int]] = field(default_factory=set)
    """Places of subjects and samples that a process died of."""

    def note(self, place: int, number: int, way: str) -> None:
        """Write into the diary."""
        self.diary.write_text(f"{place} {number} {way}")


def spread(samples: Samples, names: Sequence[str], order: Order) -> Tally:
    """Examine all samples that the order wants of the subjects with these names."""
    numbered = list(enumerate(names))
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        left = [
            _Chunk(numbered[start : start + _AT_ONCE], Path(folder, str(start)))
            for start in range(0, len(names), _AT_ONCE)
        ]
        while left:
            broken = _run(samples, left, order, total)
            left = [chunk for chunk in broken if not chunk.diary.exists()]
            if left and len(left) == len(broken):
                raise RuntimeError("processes die before they come to a first sample")
            # Which of those that had begun is to blame shows when each runs by itself.
            for chunk in (chunk for chunk in broken if chunk.diary.exists()):
                while _run(samples, [chunk], order, total):
                    _leave_out_what_it_died_of(chunk, total)
    return total


def _run(samples: Samples, chunks: list[_Chunk], order: Order, total: Tally) -> list[_Chunk]:
    """Examine chunks, add what they counted, and return those of which the process died, or that of another."""
    broken = []
    # Also with a single job: the recorder looks for tensors in the variables of all callers, and here are many names.
    with ProcessPoolExecutor(max(1, min(order.jobs, len(chunks))), _loaded_once()) as pool:
        futures = [pool.submit(_examine_all, samples, chunk, order) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                total.add(future.result())
            except BrokenProcessPool:
                broken.append(chunk)
    return broken


def _loaded_once() -> ForkServerContext:
    """Processes are forked from one that has torch's test inputs loaded, which takes as long as to examine many."""
    context = get_context("forkserver")
    context.set_forkserver_preload(
        ["torch.testing._internal.common_modules", "torch.testing._internal.common_methods_invocations"]
    )
    return context


def _examine_all(samples: Samples, chunk: _Chunk, order: Order) -> Tally:
    torch.set_num_threads(1)
    quiet()
    tally = Tally()
    for place, name in chunk.subjects:
        tally.subjects[name] += 0
        try:
            wanted = islice(samples(name, place, tally), 0, 1 if order.only_first else None, order.share)
            for number, sample in enumerate(wanted):
                if (place, number) in chunk.without:
                    continue
                chunk.note(place, number, _PLAIN)
                examine(sample, tally, before_recording=partial(chunk.note, place, number, _RECORDED))
        except Exception as error:  # of torch while it makes inputs
            tally.failures.append(f"{name}: its samples could not be made: {type(error).__name__}: {error}")
    return tally


def _leave_out_what_it_died_of(chunk: _Chunk, total: Tally) -> None:
    place, number, way = chunk.diary.read_text().split()
    chunk.without.add((int(place), int(number)))
    name = dict(chunk.subjects)[int(place)]
    if way == _PLAIN:
        total.skipped[f"samples: the process dies of {name} without gradviz, too"] += 1
    else:
        total.failures.append(f"{name}: the process died while its sample {number} was recorded")


_Found = TypeVar("_Found")


def each_in_processes(examine: Callable[[str], _Found | str], names: list[str], jobs: int) -> dict[str, _Found | str]:
    """For each name what was found, or how examining it ended."""
    if jobs == 1 or len(names) <= 1:
        return {name: examine(name) for name in names}
    with ProcessPoolExecutor(min(jobs, len(names)), get_context("spawn")) as pool:
        return {name: _outcome(future) for name, future in [(name, pool.submit(examine, name)) for name in names]}


def _outcome(future: Future[_Found | str]) -> _Found | str:
    try:
        return future.result()
    except BrokenProcessPool:
        return "the process died, of this or of another"
