"""Spreads subjects over processes, and survives it when one of these dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context

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


def spread(samples: Samples, names: Sequence[str], order: Order) -> Tally:
    """Examine all samples that the order wants of the subjects with these names."""
    chunks = [list(enumerate(names))[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
    total = Tally()
    # Also with a single job: the recorder looks for tensors in the variables of all callers, and here are many names.
    with ProcessPoolExecutor(max(1, min(order.jobs, len(chunks))), get_context("spawn")) as pool:
        futures = [pool.submit(_examine_all, samples, chunk, order.share) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            total.add(_outcome(chunk, future))
    return total


def _examine_all(samples: Samples, named: list[tuple[int, str]], share: int) -> Tally:
    torch.set_num_threads(1)
    quiet()
    tally = Tally()
    for place, name in named:
        tally.subjects[name] += 0
        try:
            for sample in islice(samples(name, place, tally), 0, None, share):
                examine(sample, tally)
        except Exception as error:  # of torch while it makes inputs
            tally.failures.append(f"{name}: its samples could not be made: {type(error).__name__}: {error}")
    return tally


def _outcome(chunk: list[tuple[int, str]], future: Future[Tally]) -> Tally:
    try:
        return future.result()
    except BrokenProcessPool:
        return Tally(failures=[f"{chunk[0][1]} ... {chunk[-1][1]}: the process died, of these or of others"])
