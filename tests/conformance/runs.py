"""A sample is run three times: plain, watched by hand, and recorded by gradviz.

The plain run asks `torch.autograd.grad` and looks at nothing else. The second reads torch's own attributes and copies
what flows, for all that the first cannot tell. Neither uses any code of gradviz.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gradviz.capture.capture import Capture
from gradviz.recording.recorded_block import BlockRecorder
from gradviz.recording.run.recording_plan import RecordingPlan
from tests.conformance.known_graph import KnownGraph, walk_naively
from tests.conformance.sample import Sample, cotangents, forward

MAX_VALUES = 4096
"""Gradients with so many elements are compared value by value, larger ones by their figures."""

_RECORD_EVERYTHING = RecordingPlan(backward=None, keep_going=True, values_up_to=MAX_VALUES, begins_midway=True)


@dataclass(frozen=True)
class Run:
    """What a run gave."""

    outputs: list[torch.Tensor]
    """Detached."""
    gradients: list[torch.Tensor | None]
    """One for each leaf."""
    error: str | None
    """What backward raised."""
    random_state: torch.Tensor


class NoTest(Exception):
    """The sample has nothing to compare; says why."""


@contextmanager
def _noting_errors(errors: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        errors.append(first_line(error))


def first_line(error: Exception) -> str:
    """Without the lines that follow, which may hold addresses."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def run_plain(sample: Sample) -> Run:
    """The run to compare with; raises `NoTest` for what cannot be differentiated at all."""
    prepared = sample.prepare()
    try:
        outputs = forward(prepared)
    except Exception as error:
        raise NoTest(f"torch refuses the forward of {sample.subject}: {first_line(error)}") from error
    if not prepared.leaves:
        raise NoTest("no input can require grad")
    if not outputs:
        raise NoTest("nothing that it gives requires grad")
    errors: list[str] = []
    gradients: list[torch.Tensor | None] = [None] * len(prepared.leaves)
    with _noting_errors(errors):
        gradients = list(torch.autograd.grad(outputs, prepared.leaves, cotangents(outputs), allow_unused=True))
    return _finished(outputs, gradients, errors)


def plain_runs_elsewhere(sample: Sample) -> Iterator[Run]:
    """Plain runs with their tensors in other places of the memory."""
    in_the_way: list[object] = []
    for size in range(100):
        run = run_plain(sample)
        in_the_way += [run, torch.empty(8 + size % 7, dtype=torch.uint8)]
        yield run


def run_watched(sample: Sample) -> tuple[Run, KnownGraph]:
    """The same with ``backward()``, with what torch tells of its graph and with copies of all gradients."""
    prepared = sample.prepare()
    outputs = forward(prepared)
    try:
        known = walk_naively(outputs, prepared.leaves, watch=True)
    except RuntimeError as error:
        # It views a leaf to find its node, which it cannot do with a jagged one.
        raise NoTest(f"torch does not tell the node of an output: {type(error).__name__}") from error
    errors: list[str] = []
    with _noting_errors(errors):
        torch.autograd.backward(outputs, cotangents(outputs))
    return _finished(outputs, [leaf.grad for leaf in prepared.leaves], errors), known


def run_recorded(sample: Sample) -> tuple[Run, Capture]:
    """The same with ``backward()``, recorded as a block is."""
    prepared = sample.prepare()
    errors: list[str] = []
    recorder = BlockRecorder(_RECORD_EVERYTHING)
    recorder.start(sys._getframe())
    try:
        outputs = forward(prepared)
        gradients = cotangents(outputs)
        with _noting_errors(errors):
            torch.autograd.backward(outputs, gradients)
    finally:
        capture = recorder.finish(sys.exc_info()[1], sys._getframe())
    return _finished(outputs, [leaf.grad for leaf in prepared.leaves], errors), capture


def _finished(outputs: list[torch.Tensor], gradients: list[torch.Tensor | None], errors: list[str]) -> Run:
    return Run([output.detach() for output in outputs], gradients, next(iter(errors), None), torch.get_rng_state())


def quiet() -> None:
    """torch warns of many samples: of what is deprecated, experimental or slow."""
    warnings.simplefilter("ignore")
